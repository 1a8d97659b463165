// The node that serves this console. Its state needs no token.

import { readMetrics, readStatus, type Fleet, type FleetNode, type Status } from "../api.ts";
import { grown } from "../figures.ts";
import { count, plural, rate, sentence } from "../format.ts";
import { decidedOf, fleetOf, parse, type Decided } from "../metrics.ts";
import { reasonOf } from "../failure.ts";
import { Badge, Notice } from "./notices.tsx";

export interface Here {
  status: Status;
  fleet: Fleet | undefined;
  decided: Decided;
  /** Milliseconds of performance.now. */
  at: number;
  before: { decided: Decided; at: number } | undefined;
}

/** The previous reading, for rates. */
let last: { decided: Decided; at: number } | undefined;

export async function readThisNode(signal: AbortSignal): Promise<Here> {
  const [status, text] = await Promise.all([readStatus(signal), readMetrics(signal)]);
  const samples = parse(text);
  const decided = decidedOf(samples);
  const at = performance.now();
  const before = last;
  last = { decided, at };
  return { status, fleet: fleetOf(samples), decided, at, before };
}

/** The node in the form of the rules service. */
export function asNode({ status, fleet }: Here): FleetNode {
  const follow = status.rules.follow;
  const down = (status.store.shards ?? []).filter((s) => !s.up && !s.replaced);
  const made: FleetNode = {
    id: "this node",
    namespace: follow?.namespace ?? "default",
    version: status.version ?? "",
    revision: status.rules.revision,
    lag_ms: follow?.lag_ms ?? 0,
    store: down.length === 0 ? "ok" : `${status.store.kind}: ${down[0]?.error ?? "unreachable"}`,
    started: status.started ?? "",
  };
  if (follow?.from_disk) made.from_disk = true;
  const wrong = status.rules.error ?? follow?.unreachable;
  if (wrong) made.error = wrong;
  if (fleet) made.fleet = fleet;
  return made;
}

/** The state of this node. The title depends on whether the page shows other nodes, too. */
export function ThisNodePanel({ here, alone }: { here: Here; alone: boolean }) {
  const { status, decided, before } = here;
  const perSecond = (of: (d: Decided) => number): string => {
    if (!before) return "–";
    return rate((grown(of(before.decided), of(decided)) * 1000) / Math.max(1, here.at - before.at));
  };
  const down = (status.upstreams ?? []).filter((u) => !u.up);
  return (
    <section aria-labelledby="here-title">
      <div class="section-head">
        <h2 id="here-title">{alone ? "Decisions" : "This node"}</h2>
        <span class="badges">
          {status.state === "ready" ? <Badge tone="good">ready</Badge> : <Badge tone="warn">{status.state}</Badge>}
          {status.degraded && <Badge tone="warn">degraded</Badge>}
        </span>
      </div>
      <dl class="figures card">
        <div>
          <dt>Requests</dt>
          <dd>
            <span class="figure">{perSecond((d) => d.requests)}</span>
            <span class="muted">/s</span>
          </dd>
        </div>
        <div>
          <dt>Denied</dt>
          <dd>
            <span class="figure">{perSecond((d) => d.denied)}</span>
            <span class="muted">/s, {count(decided.denied)} in all</span>
          </dd>
        </div>
        <div>
          <dt>Degraded</dt>
          <dd>
            <span class="figure">{perSecond((d) => d.degraded)}</span>
            <span class="muted">/s, {count(decided.degraded)} in all</span>
          </dd>
        </div>
        <div>
          <dt>Counters</dt>
          <dd>
            <span class="figure">{status.store.kind}</span>
            {decided.circuits > 0 && (decided.open.length === 0 ? <Badge tone="good">circuit closed</Badge> : <Badge tone="bad">{plural(decided.open.length, "circuit")} open</Badge>)}
          </dd>
        </div>
        {here.fleet && here.fleet.known > 0 && (
          <div>
            <dt>Live peers</dt>
            <dd>
              <span class="figure">{count(here.fleet.live)}</span>
              <span class="muted">of {count(here.fleet.known)}</span>
            </dd>
          </div>
        )}
        <div>
          <dt>Rules</dt>
          <dd>
            <span class="figure">{count(status.rules.count)}</span>
            <span class="muted clip" title={status.rules.source}>
              from {status.rules.source.replace(/^\S+ .*\//, "")}
            </span>
          </dd>
        </div>
      </dl>
      {status.database && !status.database.writable && (
        <Notice tone="bad">
          Rules cannot be changed: {status.database.error}. To do: {status.database.todo}.
        </Notice>
      )}
      {(status.warnings ?? []).map((w) => (
        <Notice key={w} tone="warn">
          {sentence(w)}
        </Notice>
      ))}
      {status.rules.error && <Notice tone="bad">Rules were refused, the ones before stay in force: {status.rules.error}</Notice>}
      {status.rules.follow?.unreachable && <Notice tone="warn">The rules service is unreachable: {status.rules.follow.unreachable}</Notice>}
      {status.rules.follow?.disk && <Notice tone="warn">Rules are not kept on disk: {status.rules.follow.disk}</Notice>}
      {status.identity?.error && <Notice tone="warn">Tokens of users cannot be verified: {status.identity.error}</Notice>}
      {(status.store.warnings ?? []).map((w) => (
        <Notice key={w} tone="warn">
          {w}
        </Notice>
      ))}
      {(status.store.shards ?? [])
        .filter((s) => !s.up)
        .map((s) => (
          <Notice key={s.name ?? ""} tone={s.replaced ? "warn" : "bad"}>
            {s.replaced ? (
              <>The Redis server {s.name} is down. Another server has taken its place, so decisions do not need it.</>
            ) : (
              <>
                The store {s.name} is unreachable: {sentence(reasonOf(s.error ?? "no response"))} The on_failure of each rule decides.
              </>
            )}
          </Notice>
        ))}
      {down.map((u) => (
        <Notice key={u.url} tone="warn">
          The upstream {u.url} is down{u.error ? `: ${u.error}` : ""}.
        </Notice>
      ))}
    </section>
  );
}
