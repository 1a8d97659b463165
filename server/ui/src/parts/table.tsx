// A table, as all of the console's are. Roles are said aloud: on a phone rows are cards, and browsers forget what such a table was.

import type { ComponentChildren } from "preact";

export interface Column<T> {
  /** Stands above the column, or before the cell where a row is a card. */
  name: string;
  cell: (row: T) => ComponentChildren;
  /** What the name means, for who points at it. */
  means?: string;
  /** Figures stand below each other. */
  num?: boolean;
  /** What the cell has more exactly, or in full, for who points at it. */
  full?: (row: T) => string | undefined;
  /** The figure as it is, for programs that read the page. */
  value?: (row: T) => number;
  /** Rows of one group have one cell in common. */
  common?: boolean;
  /** It needs room: in a card it stands below its name. */
  large?: boolean;
}

interface Props<T> {
  name: string;
  /** What it is, for who does not see it; or the id of the title above it. */
  label: string | { by: string };
  /** The first names its row. */
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** What stands in the place of a table without rows. */
  empty?: ComponentChildren;
  /** It is of many figures: it scrolls to the side, and as cards it has two columns. */
  dense?: boolean;
  /** The rows shown are being loaded again. */
  busy?: boolean;
  /** Rows of the same group, which follow each other, share the cells that are common to them. */
  groupOf?: (row: T) => string;
  rowOf?: (row: T) => { class?: string; "data-node"?: string; "data-mode"?: string };
}

export function Table<T>({ name, label, columns, rows, keyOf, empty, dense = false, busy = false, groupOf, rowOf }: Props<T>) {
  if (rows.length === 0) return <>{empty}</>;
  const named = typeof label === "string" ? { "aria-label": label } : { "aria-labelledby": label.by };
  const table = (
    <table role="table" {...named} aria-busy={busy} class={`grid${dense ? " dense" : ""}${busy ? " busy" : ""}`} data-table={name} onKeyDown={arrows}>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((c) => (
            <th key={c.name} role="columnheader" scope="col" class={c.num ? "num" : undefined} title={c.means}>
              {c.name}
            </th>
          ))}
        </tr>
      </thead>
      {groups(rows, groupOf).map((group) => (
        <tbody key={group[0] && groupOf?.(group[0])} role="rowgroup" class={groupOf && "together"}>
          {group.map((row, i) => (
            <tr key={keyOf(row)} role="row" {...rowOf?.(row)}>
              {columns.map((c, n) => (c.common && i > 0 ? null : <Cell key={c.name} of={c} row={row} heads={n === 0} spans={c.common ? group.length : 1} />))}
            </tr>
          ))}
        </tbody>
      ))}
    </table>
  );
  if (!dense) return table;
  return (
    <div class="scroll" tabIndex={0} role="region" {...named}>
      {table}
    </div>
  );
}

function Cell<T>({ of, row, heads, spans }: { of: Column<T>; row: T; heads: boolean; spans: number }) {
  const props = {
    class: of.num ? "num" : of.large ? "large" : undefined,
    title: of.full?.(row),
    rowSpan: spans > 1 ? spans : undefined,
    "data-label": of.name,
    "data-value": of.value?.(row),
    children: of.cell(row),
  };
  return heads ? <th role="rowheader" scope="row" {...props} /> : <td role="cell" {...props} />;
}

function groups<T>(rows: readonly T[], groupOf: ((row: T) => string) | undefined): T[][] {
  const made: T[][] = [];
  let last: string | undefined;
  for (const row of rows) {
    const group = groupOf?.(row) ?? "";
    if (made.length > 0 && group === last) made[made.length - 1]?.push(row);
    else made.push([row]);
    last = group;
  }
  return made;
}

/** The arrow keys, Home and End go from row to row: to the same button or link of it, or the first if it has fewer. */
function arrows(event: KeyboardEvent & { currentTarget: HTMLTableElement }): void {
  const at = event.target instanceof Element ? event.target.closest("tr") : null;
  if (!at || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const stops = (row: Element): HTMLElement[] => [...row.querySelectorAll<HTMLElement>("a, button:not(:disabled)")];
  const rows = [...event.currentTarget.querySelectorAll("tbody tr")].filter((row) => stops(row).length > 0);
  const here = rows.indexOf(at);
  const next = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key];
  const row = next === undefined ? undefined : rows[next];
  if (here < 0 || !row) return;
  event.preventDefault();
  const places = stops(row);
  (places[stops(at).indexOf(document.activeElement as HTMLElement)] ?? places[0])?.focus();
}

/** Goes into a table from what stands above it. */
export function enter(table: string): void {
  document.querySelector<HTMLElement>(`[data-table=${table}] tbody :is(a, button)`)?.focus();
}
