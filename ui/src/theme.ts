// Light, dark, or as the system has it. It is the one thing that is remembered beyond the tab.

export type Theme = "auto" | "light" | "dark";

const name = "headgate-theme";
export const themes: readonly Theme[] = ["auto", "light", "dark"];

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(name);
    return themes.find((t) => t === kept) ?? "auto";
  } catch {
    return "auto"; // a browser may keep nothing
  }
}

export function setTheme(value: Theme): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It is forgotten with the page.
  }
  showTheme(value);
}

export function showTheme(value: Theme): void {
  if (value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
