import { readMetrics, type FleetNode, type FleetServer, type Status } from "../api.ts";
import { factsOf } from "../facts.ts";
import { reasonOf } from "../failure.ts";
import { heartbeatOf, isTimingOut } from "../figures.ts";
import { ago, bytes, count, plural, rate, short, span, stamp } from "../format.ts";
import { useHealth, type State } from "../health.ts";
import { HotKeys } from "../parts/hotkeys.tsx";
import { StoreBadge } from "../parts/nodes.tsx";
import { Badge, Empty, ErrorNotice, Loading, Notice } from "../parts/notices.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { useNow, usePoll } from "../poll.ts";
import type { Session } from "../session.ts";
import { StoreTrack, type StoreCalls, type StoreServer } from "../storefigures.ts";

/** A server with its state, from /metrics and /readyz of this node, and from the reports of all nodes. */
interface Row extends StoreServer {
  key: string;
  since: string | undefined;
  error: string | undefined;
  /** The same server as all nodes see it; undefined if the rules service does not know it. */
  fleet: FleetServer | undefined;
}

/** The figures are kept while other pages are open. */
const track = new StoreTrack();

export function Stores({ session }: { session: Session }) {
  const state = useHealth();
  const now = useNow();
  const polled = usePoll(async (signal) => track.update(await readMetrics(signal), performance.now()), "stores");
  const here = state?.here;
  if (!here) return <Loading what="the stores" />;
  const rows = rowsOf(here, polled.data?.servers ?? [], state.servers);
  const inMemory = here.store.kind === "memory";
  const facts = factsOf(state).filter((f) => f.href === "/stores" && !(inMemory && f.tone === "good"));
  const unreachable = state.nodes.filter((n) => n.store !== "ok");
  const faulty = [...unreachable, ...state.nodes.filter((n) => isTimingOut(n) && heartbeatOf(n, now) === "now")];
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Stores</h1>
        <p class="summary">
          <span>Counters in {inMemory ? "the memory of this node" : here.store.kind.replace("redis", "Redis")}</span>
          {facts.map((f) => (
            <Badge key={f.text} tone={f.tone}>
              {f.text}
            </Badge>
          ))}
        </p>
        <p class="muted lead">The servers that hold the counters of all nodes. Latency, network and timeouts are those that the node behind this console measures.</p>
      </div>
      {(here.store.warnings ?? []).length > 0 && (
        <Notice tone="warn">
          <ul>
            {(here.store.warnings ?? []).map((w) => (
              <li key={w}>{w}</li>
            ))}
          </ul>
        </Notice>
      )}
      {polled.error && <ErrorNotice error={polled.error} />}
      {inMemory && rows.length === 0 ? (
        <Empty title="This node counts in memory: there is no store to reach.">
          <p>
            Nodes share limits with <code>--store redis://…</code>.
          </p>
        </Empty>
      ) : (
        <>
          {!inMemory && <Calls of={polled.data?.calls} />}
          <section aria-labelledby="shards-title">
            <h2 id="shards-title">Servers</h2>
            <Table name="shards" label={{ by: "shards-title" }} columns={columns(now)} rows={rows} keyOf={(r) => r.key} empty={<p class="muted">No server was used yet.</p>} dense />
          </section>
          <HotKeys session={session} />
          <section aria-labelledby="store-nodes-title">
            <h2 id="store-nodes-title">{nodesTitle(state, faulty.length > unreachable.length)}</h2>
            <Table name="store-nodes" label={{ by: "store-nodes-title" }} columns={nodeColumns(now, state.namespace)} rows={faulty} keyOf={(n) => `${n.namespace}/${n.id}`} empty={<p class="muted">{state.degraded ? "The node behind this console. No other node reports it." : "All nodes reach their store."}</p>} />
          </section>
        </>
      )}
    </>
  );
}

function nodesTitle({ degraded, nodes }: State, timeouts: boolean): string {
  if (timeouts) return "Nodes with failed calls of their store";
  return degraded || nodes.some((n) => n.store !== "ok") ? "Nodes that do not reach their store" : "Nodes";
}

/** Calls of this node to its store. */
function Calls({ of }: { of: StoreCalls | undefined }) {
  const figures: [string, string, string][] = [
    ["Calls", of ? rate(of.perSecond) : "–", "/s"],
    ["Median latency", of?.median === undefined ? "–" : atMost(of.median), ""],
    ["99 % latency", of?.p99 === undefined ? "–" : atMost(of.p99), ""],
    ["Errors", of ? rate(of.errorsPerSecond) : "–", "/s"],
  ];
  return (
    <dl class="figures card" data-figures>
      {figures.map(([name, value, unit]) => (
        <div key={name} class={name === "Errors" && of && of.errorsPerSecond > 0 ? "tone-bad" : undefined}>
          <dt>{name}</dt>
          <dd>
            <span class="figure">{value}</span>
            <span class="muted">{unit}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The upper bound of a bucket of the histogram. */
function atMost(ms: number): string {
  return Number.isFinite(ms) ? `≤ ${span(ms)}` : "> 1 s";
}

/** Servers by shard, the primary in front of its replicas: those that this node uses, and those that only other nodes use. */
function rowsOf(here: Status, servers: readonly StoreServer[], fleet: readonly FleetServer[]): Row[] {
  const states = new Map((here.store.shards ?? []).map((s) => [s.name ?? "", s]));
  const names = new Set([...servers.map((s) => s.name), ...states.keys()]);
  const own = [...names].map((name): Row => {
    const server = servers.find((s) => s.name === name) ?? { ...unknown, name };
    const state = states.get(name);
    const seen = fleet.find((s) => s.server === name);
    const up = state?.up === false ? false : (seen?.up ?? state?.up ?? server.up);
    return { ...server, key: name, up, since: up === false ? (state?.since ?? seen?.down_since) : state?.since, error: up === false ? (state?.error ?? seen?.error) : state?.error, fleet: seen };
  });
  const mine = new Set(own.map((r) => r.fleet));
  const others = fleet
    .filter((s) => !mine.has(s))
    .map((s): Row => ({ ...reported(s), key: `${s.server} ${(s.nodes ?? []).join(" ")}`, since: s.down_since, error: s.error, fleet: s }));
  const place = (r: Row): string => JSON.stringify([r.fleet?.shard ?? r.name, r.role === "replica", r.name]);
  return [...own, ...others].sort((a, b) => (place(a) < place(b) ? -1 : 1));
}

/** A server that only other nodes use: without what this node measures. */
function reported(s: FleetServer): StoreServer {
  return {
    ...unknown,
    name: s.server,
    role: s.role,
    up: s.up,
    cpu: s.cpu_cores < 0 ? undefined : s.cpu_cores,
    memory: s.memory_bytes,
    memoryMax: s.memory_max_bytes,
    operations: s.operations_per_second,
    ping: s.up ? s.ping_ms : undefined,
    lag: s.replication_lag_bytes,
    evicted: s.evicted_keys,
  };
}

const unknown: StoreServer = {
  name: "",
  role: undefined,
  up: undefined,
  circuit: undefined,
  slots: undefined,
  cpu: undefined,
  memory: undefined,
  memoryMax: undefined,
  received: undefined,
  sent: undefined,
  operations: undefined,
  ping: undefined,
  p99: undefined,
  lag: undefined,
  evicted: undefined,
  unanswered: undefined,
  history: [],
};

/** Figures that a server has only while it is up. Others are those of its last report. */
const momentary = new Set(["CPU", "Repl. lag"]);

function columns(now: number): Column<Row>[] {
  const figure = (name: string, of: (r: Row) => number | undefined, text: (n: number, r: Row) => string, means?: string): Column<Row> => ({
    name,
    num: true,
    ...(means ? { means } : {}),
    cell: (r) => {
      const value = of(r);
      return value === undefined || (r.up === false && momentary.has(name)) ? "–" : text(value, r);
    },
  });
  return [
    {
      name: "Server",
      cell: (r) => (
        <>
          <span class={r.role === "replica" ? "nowrap replica" : "nowrap"}>{short(r.name)}</span>
          {r.role && (
            <span class="row-note">
              {r.role}
              {r.slots ? `, ${plural(r.slots, "slot")}` : ""}
            </span>
          )}
          {r.fleet?.nodes && <span class="row-note">{usedBy(r.fleet)}</span>}
          {r.error && <span class="row-error">{short(reasonOf(r.error))}</span>}
        </>
      ),
    },
    {
      name: "State",
      full: (r) => r.since && stamp(r.since),
      cell: (r) => (
        <>
          {r.up === undefined ? <Badge tone="plain">unknown</Badge> : r.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">down</Badge>}
          {r.since && !r.since.startsWith("0001") && <span class="row-note nowrap">{ago(r.since, now).replace(" ago", "")}</span>}
        </>
      ),
    },
    { name: "Circuit", means: "Open: the server gets no requests, and on_failure decides", cell: (r) => <CircuitCell of={r} /> },
    {
      name: "Ops/s",
      means: "Operations per second, now and while this page is open; hot: more than 5000 and twice the average of the other primaries",
      num: true,
      cell: (r) => (
        <>
          {r.operations === undefined ? "–" : rate(r.operations)}
          {r.fleet?.hot && <Badge tone="warn">hot</Badge>}
          <span class="row-note">
            <Sparkline values={r.history} label={`Operations per second of ${r.name}`} />
          </span>
        </>
      ),
    },
    figure("CPU", (r) => r.cpu, (n) => `${Math.round(100 * n)}\u202f%`, "Of one core"),
    figure("Memory", (r) => r.memory, (n, r) => (r.memoryMax ? `${bytes(n)} of ${bytes(r.memoryMax)}` : bytes(n))),
    {
      name: "Network",
      means: "Bytes that the server receives and sends",
      num: true,
      cell: (r) =>
        r.up === false || (r.received === undefined && r.sent === undefined) ? (
          "–"
        ) : (
          <>
            in {bytes(r.received ?? 0)}/s<span class="row-note">out {bytes(r.sent ?? 0)}/s</span>
          </>
        ),
    },
    {
      name: "Latency",
      means: "Of 99 % of the node's calls in the last seconds, and its last ping",
      num: true,
      cell: (r) =>
        r.up === false ? (
          "–"
        ) : (
          <>
            {r.p99 === undefined ? "–" : atMost(r.p99)}
            {r.ping !== undefined && <span class="row-note nowrap">ping {span(r.ping)}</span>}
          </>
        ),
    },
    figure("Repl. lag", (r) => r.lag, bytes, "Bytes that the slowest replica is behind"),
    figure("Evicted", (r) => r.evicted, count, "Keys evicted since the server started: the store needs more memory if it grows"),
    figure("Timeouts", (r) => r.unanswered, count, "Calls without a response in time, since the node started"),
  ];
}

/** Such as: used by eu-1, eu-2 and 3 more nodes. */
function usedBy({ nodes = [], node_count: all = nodes.length }: FleetServer): string {
  const shown = nodes.slice(0, 2);
  const more = all - shown.length;
  return `used by ${shown.join(", ")}${more > 0 ? ` and ${plural(more, "more node", "more nodes")}` : ""}`;
}

/** Whether the circuit is open, and on which nodes: on this one, on others, or on none. */
function CircuitCell({ of: r }: { of: Row }) {
  const open = r.fleet?.open_on ?? [];
  if (r.up === false && r.circuit === "closed" && open.length === 0) return <>–</>; // nothing calls a server that was replaced
  if (open.length > 0) {
    return (
      <>
        <Badge tone="warn">open</Badge>
        <span class="row-note" title={`Open on ${open.join(", ")}`}>
          on {open.length > 1 ? plural(open.length, "node") : open.join(", ")}
        </span>
      </>
    );
  }
  if (!r.circuit) return r.fleet && r.up ? <Badge tone="good">closed</Badge> : <>–</>;
  return <Badge tone={r.circuit === "closed" ? "good" : "warn"}>{r.circuit}</Badge>;
}

function nodeColumns(now: number, shown: string): Column<FleetNode>[] {
  return [
    {
      name: "Node",
      cell: (n) => (
        <>
          {n.id}
          {n.namespace !== shown && <span class="row-note">namespace {short(n.namespace)}</span>}
        </>
      ),
    },
    { name: "Region", cell: (n) => (n.region ? short(n.region) : "–") },
    { name: "Store", full: (n) => n.store, cell: (n) => <StoreBadge of={n} /> },
    { name: "Last heartbeat", num: true, cell: (n) => ago(n.seen, now) },
  ];
}
