import { readMetrics } from "../api.ts";
import { ago, count, short, span, stamp } from "../format.ts";
import { useHealth } from "../health.ts";
import { shardsOf, type Shard } from "../metrics.ts";
import { Badge, Empty, Notice, Waiting, Wrong } from "../parts/marks.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useNow, usePoll } from "../poll.ts";
import type { FleetNode, Status } from "../api.ts";

/** A server of the store, as this node sees it. */
interface Row extends Shard {
  up: boolean;
  since: string | undefined;
  error: string | undefined;
}

export function Stores() {
  const state = useHealth();
  const now = useNow();
  const metrics = usePoll(readMetrics, "stores");
  const here = state?.here;
  if (!here) return <Waiting what="the stores" />;
  const rows = rowsOf(here, metrics.data ? shardsOf(metrics.data) : []);
  const faulty = state.nodes.filter((n) => n.store !== "ok");
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Stores</h1>
        <p class="summary">
          <span>Counters in {here.store.kind === "memory" ? "the memory of each node" : here.store.kind}</span>
          {!state.degraded && <Badge tone="good">reachable</Badge>}
          {state.degraded && <Badge tone="bad">unreachable</Badge>}
        </p>
        <p class="muted lead">The servers that hold the counters, as the node behind this console sees them.</p>
      </div>
      {(here.store.warnings ?? []).map((w) => (
        <Notice key={w} tone="warn">
          {w}
        </Notice>
      ))}
      {metrics.error && <Wrong error={metrics.error} />}
      {here.store.kind === "memory" ? (
        <Empty title="This node counts in memory: there is no store to reach.">
          <p>
            Nodes share limits with <code>--store redis://…</code>.
          </p>
        </Empty>
      ) : (
        <Table name="shards" label="Servers of the store" columns={columns(now)} rows={rows} keyOf={(r) => r.name} empty={<p class="muted">No server was used yet.</p>} />
      )}
      {here.store.kind !== "memory" && (
        <section aria-labelledby="store-nodes-title">
          <h2 id="store-nodes-title">Nodes that do not reach their store</h2>
          <Table name="store-nodes" label={{ by: "store-nodes-title" }} columns={nodeColumns(now)} rows={faulty} keyOf={(n) => n.id} empty={<p class="muted">None.</p>} />
        </section>
      )}
    </>
  );
}

function rowsOf(here: Status, shards: readonly Shard[]): Row[] {
  const rows = new Map<string, Row>();
  for (const s of shards) rows.set(s.name, { ...s, up: s.circuit !== "open", since: undefined, error: undefined });
  for (const s of here.store.shards ?? []) {
    const name = s.name ?? "";
    rows.set(name, { ...(rows.get(name) ?? { name, circuit: undefined, figures: {} }), up: s.up, since: s.since, error: s.error });
  }
  return [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function columns(now: number): Column<Row>[] {
  const figure = (name: string, of: string, text: (n: number) => string, means?: string): Column<Row> => ({
    name,
    num: true,
    ...(means ? { means } : {}),
    cell: (r) => {
      const value = r.figures[of];
      return value === undefined ? "–" : text(value);
    },
  });
  return [
    {
      name: "Server",
      cell: (r) => (
        <>
          {short(r.name)}
          {r.error && <span class="row-error">{short(r.error)}</span>}
        </>
      ),
    },
    { name: "State", cell: (r) => (r.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">down</Badge>) },
    { name: "Since", full: (r) => r.since && stamp(r.since), cell: (r) => (r.since && !r.since.startsWith("0001") ? ago(r.since, now) : "–") },
    { name: "Circuit", means: "Open: the server gets no requests, and on_failure decides", cell: (r) => (r.circuit ? <Badge tone={r.circuit === "closed" ? "good" : "warn"}>{r.circuit}</Badge> : "–") },
    figure("Latency", "latency_ms", span, "Mean duration of a call since the node started"),
    figure("Calls", "calls", count, "Since the node started"),
    figure("Errors", "errors", count, "Since the node started"),
  ];
}

function nodeColumns(now: number): Column<FleetNode>[] {
  return [
    { name: "Node", cell: (n) => n.id },
    { name: "Region", cell: (n) => (n.region ? short(n.region) : "–") },
    { name: "Store", cell: (n) => <Badge tone="bad">{short(n.store)}</Badge> },
    { name: "Last heartbeat", num: true, cell: (n) => ago(n.seen, now) },
  ];
}
