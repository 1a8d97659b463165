// Paging of lists.

import { useState } from "preact/hooks";

export interface Pages {
  /** The cursor of the current page; undefined for the first. */
  cursor: string | undefined;
  number: number;
  forward: (cursor: string) => void;
  back: () => void;
  first: () => void;
}

export function usePages(): Pages {
  const [cursors, setCursors] = useState<string[]>([]);
  return {
    cursor: cursors[cursors.length - 1],
    number: cursors.length + 1,
    forward: (cursor) => setCursors([...cursors, cursor]),
    back: () => setCursors(cursors.slice(0, -1)),
    first: () => setCursors([]),
  };
}

/** Links to the previous and the next page. */
export function Pager({ pages, next, label, words = ["Previous", "Next"] }: { pages: Pages; next: string | undefined; label: string; words?: [string, string] }) {
  if (pages.number === 1 && next === undefined) return null;
  return (
    <nav class="pager" aria-label={label}>
      <button type="button" disabled={pages.number === 1} onClick={pages.back}>
        {words[0]}
      </button>
      <span class="muted">page {pages.number}</span>
      <button type="button" disabled={next === undefined} onClick={() => next !== undefined && pages.forward(next)}>
        {words[1]}
      </button>
    </nav>
  );
}
