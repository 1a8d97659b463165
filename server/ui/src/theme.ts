// Light, dark, or as the system has it.

import { recall, remember } from "./keep.ts";

export type Theme = "auto" | "light" | "dark";

const name = "headgate-theme";
export const themes: readonly Theme[] = ["auto", "light", "dark"];

export function theme(): Theme {
  const kept = recall(name);
  return themes.find((t) => t === kept) ?? "auto";
}

export function setTheme(value: Theme): void {
  remember(name, value);
  showTheme(value);
}

export function showTheme(value: Theme): void {
  if (value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
