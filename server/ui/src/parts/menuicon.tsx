// A small picture beside the name of each page.

import type { Page } from "../route.ts";

/** Lines in a square of 16. */
const lines: Partial<Record<Page, string>> = {
  overview: "M2 13h12M3.5 13V8.5M7 13V3M10.5 13V6.5M13.5 13V10",
  rules: "M3 4h10M3 8h10M3 12h6",
  clients: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM3 13.5c.4-2.6 2.4-4 5-4s4.6 1.4 5 4",
  overrides: "M2.5 5h6M11.5 5h2M10 3v4M2.5 11h2M7.5 11h6M6 9v4",
  explain: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6.3 6.3c.2-1 .9-1.5 1.8-1.5 1 0 1.8.6 1.8 1.6 0 1.3-1.9 1.5-1.9 2.8M8 11.4v.1",
  fleet: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.1M5 11h.1",
  alerts: "M8 2v1M4 11V7.5a4 4 0 0 1 8 0V11l1 1.5H3ZM6.5 14h3",
  stores: "M8 6c3 0 5-.8 5-2s-2-2-5-2-5 .8-5 2 2 2 5 2ZM3 4v8c0 1.2 2 2 5 2s5-.8 5-2V4M3 8c0 1.2 2 2 5 2s5-.8 5-2",
  webhooks: "M6.5 9.5l3-3M7 4.5l1.5-1.5a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5L7.5 13a2.8 2.8 0 0 1-4-4L5 7.5",
  audit: "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2",
  tokens: "M5.5 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8.5 7h5.5v2.5M11.5 7v2",
};

export function MenuIcon({ of }: { of: Page }) {
  return (
    <svg class="menu-icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={lines[of] ?? ""} />
    </svg>
  );
}
