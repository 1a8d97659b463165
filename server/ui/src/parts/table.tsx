// The tables of the console. Roles are explicit: on a phone rows are cards, and browsers then drop the roles of a table.

import type { ComponentChildren } from "preact";

export interface Column<T> {
  /** The header of the column, and the label of its cells in a card. */
  name: string;
  cell: (row: T) => ComponentChildren;
  /** Tooltip of the header. */
  means?: string;
  /** Aligns figures to the right. */
  num?: boolean;
  /** Tooltip of the cell, with the full or exact value. */
  full?: (row: T) => string | undefined;
  /** The exact figure as data-value, for tests. */
  value?: (row: T) => number;
  /** Rows of a group share this cell. */
  common?: boolean;
  /** Large content: in a card it is below its label. */
  large?: boolean;
}

interface Props<T> {
  name: string;
  /** The accessible name, or the id of the title above. */
  label: string | { by: string };
  /** The first column is the header of the row. */
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  /** Shown instead of a table without rows. */
  empty?: ComponentChildren;
  /** Many figures: scrolls sideways, and cards have two columns. */
  dense?: boolean;
  /** The rows are being reloaded. */
  busy?: boolean;
  /** Consecutive rows of the same group share their common cells. */
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

/** The arrow keys, Home and End move between rows, to the same button or link, or to the first if there are fewer. */
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

/** Moves the focus into a table. */
export function enter(table: string): void {
  document.querySelector<HTMLElement>(`[data-table=${table}] tbody :is(a, button)`)?.focus();
}
