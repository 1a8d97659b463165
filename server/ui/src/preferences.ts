// Preferences of the user, in local storage.

export function readPreference(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // the browser may refuse storage
  }
}

export function writePreference(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // The preference lasts until the page is closed.
  }
}
