// Which page is shown. The server answers with the console for these paths and no others: pages in ui.go.

import { useEffect, useState } from "preact/hooks";

export type Page = "fleet" | "rules" | "explain" | "clients" | "signin" | "nothing";

export interface Place {
  page: Page;
  /** The rule's id at /rules/{id}. */
  rule?: string;
  query: URLSearchParams;
}

const paths: Record<string, Page> = { "/": "fleet", "/rules": "rules", "/explain": "explain", "/clients": "clients", "/signin": "signin" };

/** The pages of the menu, and the letter that leads to each after a "g". */
export const menu: { page: Page; path: string; name: string; key: string }[] = [
  { page: "fleet", path: "/", name: "Fleet", key: "f" },
  { page: "rules", path: "/rules", name: "Rules", key: "r" },
  { page: "explain", path: "/explain", name: "Explain", key: "e" },
  { page: "clients", path: "/clients", name: "Clients", key: "c" },
];

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

/** Lets links that lead to a page of the console not load it anew. What asks for a new tab or window gets one. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target !== "" || link.origin !== location.origin || link.hash !== "") return;
  if (placeOf(link.pathname, "").page === "nothing") return;
  event.preventDefault();
  go(link.pathname + link.search);
}
