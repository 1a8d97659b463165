// The colour theme: light, dark, or the system's.

import { readPreference, writePreference } from "./preferences.ts";

export type Theme = "auto" | "light" | "dark";

const name = "headgate-theme";
export const themes: readonly Theme[] = ["auto", "light", "dark"];

export function theme(): Theme {
  const kept = readPreference(name);
  return themes.find((t) => t === kept) ?? "auto";
}

export function setTheme(value: Theme): void {
  writePreference(name, value);
  showTheme(value);
}

export function showTheme(value: Theme): void {
  if (value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
