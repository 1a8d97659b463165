// Tables of nodes: state, sync and leases.

import { useState } from "preact/hooks";

import type { FleetNode, Leases, Sync } from "../api.ts";
import { heartbeatOf, isTimingOut, urgent, type Track } from "../figures.ts";
import { ago, count, rate, short, span, stamp } from "../format.ts";
import { reasonOf } from "../failure.ts";
import { Badge } from "./notices.tsx";
import { Table, type Column } from "./table.tsx";

/** The maximum number of rows. A search finds the others. */
const most = 200;

interface Props {
  nodes: FleetNode[];
  track: Track;
  now: number;
  /** Only this node is known: there is no list. */
  alone: boolean;
}

export function NodeTables({ nodes, track, now, alone }: Props) {
  const [filter, setFilter] = useState("");
  const words = filter.toLowerCase().split(/\s+/);
  const fits = (n: FleetNode): boolean => words.every((w) => `${n.id} ${n.region ?? ""} ${n.version} ${n.store}`.toLowerCase().includes(w));
  const found = nodes.filter(fits);
  const shown = urgent(found, most, now);
  // Figures of silent nodes are outdated. Regions leave them out, too.
  const live = shown.filter((n) => heartbeatOf(n, now) !== "gone");
  const sync = live.flatMap((node) => (node.fleet?.sync ?? []).map((of): NodeSync => ({ node: node.id, of })));
  const leased = live.flatMap(({ id, fleet }): NodeLeases[] => (fleet?.leases ? [{ node: id, of: fleet.leases }] : []));
  const usesLeases = leased.some(({ of }) => of.granted + of.failed > 0);
  return (
    <>
      {!alone && (
        <section aria-labelledby="nodes-title">
          <div class="section-head">
            <h2 id="nodes-title">Nodes</h2>
            {nodes.length > 5 && (
              <input type="search" data-search class="filter" placeholder="Find a node" aria-label="Find a node" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
            )}
          </div>
          <Table
            name="nodes"
            label={{ by: "nodes-title" }}
            columns={nodeColumns(now)}
            rows={shown}
            keyOf={(n) => n.id}
            rowOf={(n) => ({ class: heartbeatOf(n, now) === "gone" ? "gone" : "", "data-node": n.id })}
            empty={<p class="muted">No node matches.</p>}
            dense
          />
          {found.length > most && (
            <p class="muted">
              Nodes with problems first, {most} of {count(found.length)}. Find one by name, region or version.
            </p>
          )}
        </section>
      )}
      {sync.length > 0 && (
        <section aria-labelledby="sync-title">
          <h2 id="sync-title">Sync between nodes</h2>
          <p class="muted lead">Age of updates when they arrive, and units admitted above limits before they arrived. Counted since each node started.</p>
          <Table
            name="sync"
            label={{ by: "sync-title" }}
            columns={syncColumns}
            rows={sync}
            keyOf={({ node, of }) => `${node} ${of.mode}`}
            rowOf={({ node, of }) => ({ "data-node": node, "data-mode": of.mode })}
            dense
          />
        </section>
      )}
      {usesLeases && (
        <section aria-labelledby="leases-title">
          <h2 id="leases-title">Leases</h2>
          <Table name="leases" label={{ by: "leases-title" }} columns={leaseColumns(track)} rows={leased} keyOf={({ node }) => node} rowOf={({ node }) => ({ "data-node": node })} dense />
        </section>
      )}
    </>
  );
}

function nodeColumns(now: number): Column<FleetNode>[] {
  return [
    {
      name: "Node",
      cell: (n) => (
        <>
          {n.id}
          {n.error && (
            <span class="row-error" role="note" title={n.error}>
              {short(n.error)}
            </span>
          )}
        </>
      ),
    },
    { name: "Region", full: (n) => n.region, cell: (n) => (n.region ? short(n.region) : <span class="muted">–</span>) },
    { name: "Version", full: (n) => n.version, cell: (n) => short(n.version) },
    {
      name: "Rules",
      cell: (n) => (
        <span class="badges">
          <span class="num">{count(n.revision)}</span>
          {n.behind && <Badge tone="warn">old rules</Badge>}
          {n.from_disk && (
            <Badge tone="warn" title="The rules service was unreachable when the node started">
              from disk
            </Badge>
          )}
          {n.error && <Badge tone="bad">refused</Badge>}
          {(n.enforcement_off ?? []).length > 0 && (
            <Badge tone="warn" title={(n.enforcement_off ?? []).map((s) => `${s.rule ?? "all rules"} until ${stamp(s.expires)}`).join(", ")}>
              not enforced: {short((n.enforcement_off ?? []).map((s) => s.rule ?? "all rules").join(", "), 40)}
            </Badge>
          )}
        </span>
      ),
    },
    { name: "Rules lag", means: "Time from the last change until this node applied it", num: true, cell: (n) => (n.lag_ms === 0 ? "–" : span(n.lag_ms)) },
    {
      name: "Store",
      cell: (n) => <StoreBadge of={n} />,
    },
    {
      name: "Peers",
      means: "Live peers, of all known ones, including this node",
      num: true,
      cell: ({ fleet }) => (fleet && fleet.known > 0 ? `${count(fleet.live)} of ${count(fleet.known)}` : "–"),
    },
    {
      name: "Last heartbeat",
      num: true,
      full: (n) => n.seen && stamp(n.seen),
      cell: (n) => {
        const heartbeat = heartbeatOf(n, now);
        return heartbeat === "now" ? ago(n.seen, now) : <Badge tone={heartbeat === "late" ? "warn" : "bad"}>{ago(n.seen, now)}</Badge>;
      },
    },
  ];
}

/** Whether a node reaches its store. */
export function StoreBadge({ of: n }: { of: FleetNode }) {
  if (n.store !== "ok") {
    return (
      <Badge tone="bad" title={n.store}>
        {short(reasonOf(n.store))}
      </Badge>
    );
  }
  if (!isTimingOut(n)) return <Badge tone="good">ok</Badge>;
  return n.health?.unlimited_until ? <Badge tone="warn">some calls timed out</Badge> : <Badge tone="bad">some calls time out</Badge>;
}

/** The sync of a node in one mode. */
interface NodeSync {
  node: string;
  of: Sync;
}

/** A figure that should be 0. */
const unwanted = (n: number) => (n > 0 ? <Badge tone="warn">{count(n)}</Badge> : "0");

const syncColumns: Column<NodeSync>[] = [
  { name: "Node", cell: ({ node }) => node },
  { name: "Mode", cell: ({ of }) => short(of.mode) },
  { name: "Sync", cell: ({ of }) => (of.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">down</Badge>) },
  { name: "Lag", num: true, value: ({ of }) => of.lag_ms, cell: ({ of }) => (of.received === 0 ? "–" : span(of.lag_ms)) },
  { name: "Max. lag", num: true, value: ({ of }) => of.lag_max_ms, cell: ({ of }) => (of.received === 0 ? "–" : span(of.lag_max_ms)) },
  { name: "Over-admission", num: true, value: ({ of }) => of.over, cell: ({ of }) => count(of.over) },
  { name: "Max. of one key", num: true, value: ({ of }) => of.over_max, cell: ({ of }) => count(of.over_max) },
  { name: "Lost", means: "Units of other regions that could not be charged", num: true, value: ({ of }) => of.lost, cell: ({ of }) => unwanted(of.lost) },
  {
    name: "Clock",
    means: "How far the fleet's clock, which windows use, is ahead of the node's",
    num: true,
    cell: ({ of }) => {
      if (of.clocks_off > 0) return <Badge tone="warn">{count(of.clocks_off)} off</Badge>;
      return Math.abs(of.clock_ahead_ms) < 1 ? "in sync" : (of.clock_ahead_ms > 0 ? "+" : "") + span(of.clock_ahead_ms);
    },
  },
  { name: "To send", means: "Keys with updates to send, of all keys", num: true, cell: ({ of }) => `${count(of.waiting)} of ${count(of.keys)}` },
  { name: "Failed", num: true, cell: ({ of }) => count(of.failed) },
  { name: "Refused", means: "Updates refused as impossible", num: true, cell: ({ of }) => unwanted(of.refused) },
];

interface NodeLeases {
  node: string;
  of: Leases;
}

function leaseColumns(track: Track): Column<NodeLeases>[] {
  return [
    { name: "Node", cell: ({ node }) => node },
    { name: "Keys held", num: true, cell: ({ of }) => count(of.keys) },
    {
      name: "Calls/s",
      num: true,
      cell: ({ node }) => {
        const calls = track.callsPerSecond(node);
        return calls === undefined ? "–" : rate(calls);
      },
    },
    { name: "Failed", num: true, cell: ({ of }) => count(of.failed) },
    { name: "Units granted", num: true, cell: ({ of }) => count(of.granted) },
    { name: "Returned", num: true, cell: ({ of }) => count(of.returned) },
    { name: "Expired", means: "Neither used nor returned in time", num: true, cell: ({ of }) => count(of.expired) },
  ];
}
