// Maps paths to pages. The server serves the console for these paths only: see pages in ui.go.

import { useEffect, useState } from "preact/hooks";

import type { Session } from "./session.ts";

export type Page = "overview" | "rules" | "clients" | "explain" | "overrides" | "fleet" | "stores" | "alerts" | "webhooks" | "audit" | "tokens" | "signin" | "nothing";

export interface Place {
  page: Page;
  /** The rule's id at /rules/{id}. */
  rule?: string;
  query: URLSearchParams;
}


export interface MenuEntry {
  page: Page;
  path: string;
  name: string;
  /** The key that opens the page after "g". */
  key: string;
  /** The title above it in the menu. */
  group: "Traffic" | "System" | "Administration";
  /** Only admins may see it. */
  admins?: boolean;
}

const all: readonly MenuEntry[] = [
  { page: "overview", path: "/", name: "Overview", key: "h", group: "Traffic" },
  { page: "rules", path: "/rules", name: "Rules", key: "r", group: "Traffic" },
  { page: "clients", path: "/clients", name: "Clients", key: "c", group: "Traffic" },
  { page: "overrides", path: "/overrides", name: "Overrides", key: "o", group: "Traffic" },
  { page: "explain", path: "/explain", name: "Explain", key: "e", group: "Traffic" },
  { page: "fleet", path: "/fleet", name: "Fleet", key: "f", group: "System" },
  { page: "stores", path: "/stores", name: "Stores", key: "s", group: "System" },
  { page: "alerts", path: "/alerts", name: "Alerts", key: "l", group: "System" },
  { page: "webhooks", path: "/webhooks", name: "Webhooks", key: "w", group: "Administration", admins: true },
  { page: "audit", path: "/audit", name: "Audit", key: "a", group: "Administration", admins: true },
  { page: "tokens", path: "/tokens", name: "Tokens", key: "t", group: "Administration", admins: true },
];

const paths: Record<string, Page> = { ...Object.fromEntries(all.map((m) => [m.path, m.page])), "/signin": "signin" };

/** The pages that the user may open. */
export function menuOf({ who }: Session): MenuEntry[] {
  return all.filter((m) => (!m.admins || who?.role === "admin") && (m.page !== "overrides" || !who?.no_overrides));
}

/** The same pages under their titles. */
export function menuGroups(session: Session): [string, MenuEntry[]][] {
  const entries = menuOf(session);
  return [...new Set(entries.map((m) => m.group))].map((group) => [group, entries.filter((m) => m.group === group)]);
}

export function nameOf(page: Page): string {
  return all.find((m) => m.page === page)?.name ?? (page === "signin" ? "Sign in" : "Nothing here");
}

export function placeOf(path: string, search: string): Place {
  const query = new URLSearchParams(search);
  const known = paths[path];
  if (known) return { page: known, query };
  const rule = /^\/rules\/([^/]+)$/.exec(path)?.[1];
  if (rule === undefined) return { page: "nothing", query };
  try {
    return { page: "rules", rule: decodeURIComponent(rule), query };
  } catch {
    return { page: "nothing", query };
  }
}

const moved = "headgate:moved";

export function go(path: string, replace = false): void {
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  window.dispatchEvent(new Event(moved));
}

export function usePlace(): Place {
  const here = (): Place => placeOf(location.pathname, location.search);
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const follow = (): void => setPlace(here());
    window.addEventListener("popstate", follow);
    window.addEventListener(moved, follow);
    return () => {
      window.removeEventListener("popstate", follow);
      window.removeEventListener(moved, follow);
    };
  }, []);
  return place;
}

/** Follows links to pages of the console without loading it again. Clicks that ask for a new tab or window are left alone. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target !== "" || link.origin !== location.origin || link.hash !== "") return;
  if (placeOf(link.pathname, "").page === "nothing") return;
  event.preventDefault();
  if (event.detail === 0) endKeyPress();
  go(link.pathname + link.search);
}

/**
 * Ignores the rest of a key press that opened a page. Browsers follow a link on keydown of Enter; the keypress event would then submit
 * the form whose first field has the focus.
 */
function endKeyPress(): void {
  const ended = new AbortController();
  const options = { capture: true, signal: ended.signal };
  document.addEventListener("keypress", (event) => event.preventDefault(), options);
  document.addEventListener("keyup", () => ended.abort(), options);
  document.addEventListener("keydown", (event) => event.repeat || ended.abort(), options);
}
