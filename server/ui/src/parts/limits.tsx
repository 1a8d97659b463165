// Shows limits of a request or client.

import type { Explained, LimitView } from "../api.ts";
import { count, span, wait } from "../format.ts";
import { shownValue } from "../traffic.ts";
import { Badge } from "./notices.tsx";
import type { Column } from "./table.tsx";

/** A limit of a rule, as a row of a table. A rule without limits has one row. */
export interface LimitOf {
  rule: Explained;
  limit: LimitView | undefined;
  key: string;
}

export function limitsOf(rules: readonly Explained[]): LimitOf[] {
  return rules.flatMap((rule) =>
    (rule.limits.length === 0 ? [undefined] : rule.limits).map((limit, i) => ({ rule, limit, key: `${rule.id} ${rule.node} ${rule.counters} ${i}` })),
  );
}

export const leftColumn: Column<LimitOf> = { name: "Remaining", cell: ({ limit }) => limit && <Left limit={limit} /> };

/** What remains, as a bar and as text. */
function Left({ limit }: { limit: LimitView }) {
  if (limit.remaining === null) return <Badge tone="warn">unknown</Badge>;
  const share = limit.capacity > 0 ? Math.max(0, Math.min(1, limit.remaining / limit.capacity)) : 0;
  return (
    <span class="left">
      <meter class={limit.allowed ? "" : "out"} min={0} max={1} value={share} aria-hidden="true" />
      <span class="num">
        {count(limit.remaining)} of {count(limit.capacity)}
      </span>
    </span>
  );
}

export function Effect({ rule }: { rule: Explained }) {
  return (
    <span class="badges">
      {rule.denied ? <Badge tone={rule.shadow ? "warn" : "bad"}>{rule.shadow ? "would deny" : "denies"}</Badge> : <Badge tone="good">allows</Badge>}
      {rule.effect !== "limited" && <Badge tone="plain">{rule.effect}</Badge>}
      {rule.shadow && <Badge tone="plain">shadow</Badge>}
      {rule.penalized && <Badge tone="warn">penalized</Badge>}
      {rule.override !== undefined && <Badge tone="plain">override {rule.override + 1}</Badge>}
      {rule.shared && <Badge tone="plain">shared</Badge>}
    </span>
  );
}

export function KeyOf({ rule }: { rule: Explained }) {
  if (rule.key.length === 0) return <span class="muted">all clients together</span>;
  return <Pairs of={rule.key.map((part) => [part.attribute, part.value])} />;
}

/** Attributes and their values, one per line. */
export function Pairs({ of }: { of: [string, string][] }) {
  return (
    <>
      {of.map(([name, value]) => (
        <span class="pair" key={name}>
          <span class="muted">{name}=</span>
          {shownValue(name, value)}
        </span>
      ))}
    </>
  );
}

/** When the same request passes, and when the limit is full again. Only the store knows. */
export function When({ limit }: { limit: LimitView }) {
  if (limit.reset_after_ms === null) return <span class="muted">not known while the store is unreachable</span>;
  return (
    <>
      {!limit.allowed && <>{limit.retry_after_ms < 0 ? "never passes" : `passes ${wait(limit.retry_after_ms)}`}, </>}
      {limit.delay_ms ? <>delayed {span(limit.delay_ms)}, </> : null}
      {limit.reset_after_ms === 0 ? "full" : <>full {wait(limit.reset_after_ms)}</>}
    </>
  );
}
