// What is remembered beyond the tab: how the reader likes the console, and nothing else.

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // a browser may keep nothing
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // It is forgotten with the page.
  }
}
