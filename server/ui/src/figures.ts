// Sums the fleet's figures by region, with rates between heartbeats and the last minutes.

import type { Fleet, FleetNode, Leases, Sync } from "./api.ts";

/** How many points are kept, and for how long. */
export const maxPoints = 150;
export const maxAge = 5 * 60_000;

/** A node, which sends a heartbeat every 10 s, is late and then gone after these times without one. */
const lateAfter = 30_000;
const goneAfter = 180_000;

export type Heartbeat = "now" | "late" | "gone";

/** Counts of nodes by state. Faults of a silent node do not count. */
export interface Health {
  here: number;
  late: number;
  silent: number;
  behind: number;
  faulty: number;
  down: number;
}

export function healthOf(nodes: readonly FleetNode[], now: number): Health {
  const here = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
  return {
    here: here.length,
    late: here.filter((n) => heartbeatOf(n, now) === "late").length,
    silent: nodes.length - here.length,
    behind: here.filter((n) => n.behind).length,
    faulty: here.filter(hasFault).length,
    down: here.filter(isWithoutSync).length,
  };
}

const hasFault = (n: FleetNode): boolean => n.store !== "ok" || !!n.error;
const isWithoutSync = (n: FleetNode): boolean => (n.fleet?.sync ?? []).some((m) => !m.up);

/** Whether some calls of the node's store fail, usually by a timeout, while others succeed. */
export const isTimingOut = (n: FleetNode): boolean => n.store === "ok" && (n.health?.failing_open ?? []).length > 0;

/**
 * Selects the nodes to show if there are too many: nodes with problems first, otherwise in order. Silent nodes get at most half of
 * the rows ahead of healthy ones: a fleet that was replaced has as many silent nodes as live ones.
 */
export function urgent(nodes: readonly FleetNode[], most: number, now: number): FleetNode[] {
  if (nodes.length <= most) return [...nodes];
  const faulty: FleetNode[] = [];
  const well: FleetNode[] = [];
  const gone: FleetNode[] = [];
  for (const n of nodes) {
    const heartbeat = heartbeatOf(n, now);
    if (heartbeat === "gone") gone.push(n);
    else if (heartbeat === "late" || hasFault(n) || isTimingOut(n) || isWithoutSync(n) || n.behind) faulty.push(n);
    else well.push(n);
  }
  const half = Math.floor(most / 2);
  return [...faulty, ...gone.slice(0, half), ...well, ...gone.slice(half)].slice(0, most);
}

export function heartbeatOf(node: FleetNode, now: number): Heartbeat {
  const silent = node.seen === undefined ? 0 : now - Date.parse(node.seen);
  if (silent > goneAfter) return "gone";
  return silent > lateAfter ? "late" : "now";
}

/** The sync of a region in one mode, at one time. */
export interface Point {
  at: number;
  /** Milliseconds; undefined before the first update. */
  lag: number | undefined;
  /** Over-admission since the previous point, in units. */
  over: number;
}

export interface ModeSum {
  mode: string;
  nodes: number;
  down: number;
  lag: number | undefined;
  lagMax: number;
  over: number;
  overMax: number;
  clocksOff: number;
  points: readonly Point[];
}

export interface LeaseSum {
  keys: number;
  callsPerSecond: number | undefined;
  granted: number;
  unused: number;
  failed: number;
}

export interface RegionSum {
  region: string;
  nodes: number;
  gone: number;
  modes: ModeSum[];
  leases: LeaseSum | undefined;
}

interface Known {
  seen: number;
  fleet: Fleet | undefined;
  callsPerSecond: number | undefined;
}

/** Returns how much a counter has grown. A counter that is smaller than before was reset when its node restarted. */
export function grown(before: number, after: number): number {
  return after >= before ? after - before : after;
}

/** The recent figures of the nodes. */
export class Track {
  private readonly known = new Map<string, Known>();
  private readonly series = new Map<string, Point[]>();

  /** Adds the current figures of the nodes and returns the sums by region. */
  update(nodes: readonly FleetNode[], now: number): RegionSum[] {
    const gained = new Map<string, number>();
    for (const node of nodes) this.recordNode(node, now, gained);
    const ids = new Set(nodes.map((n) => n.id));
    for (const id of this.known.keys()) if (!ids.has(id)) this.known.delete(id);

    const byRegion = new Map<string, FleetNode[]>();
    for (const node of nodes) {
      const region = node.region ?? "";
      add(byRegion, region, node);
    }
    const sums = [...byRegion].map(([region, list]) => this.sum(region, list, now, gained));
    const present = new Set(sums.flatMap((s) => s.modes.map((m) => seriesKey(s.region, m.mode))));
    for (const key of this.series.keys()) if (!present.has(key)) this.series.delete(key);
    return sums.sort((a, b) => (a.region < b.region ? -1 : 1));
  }

  /** Calls of the store for leases, between a node's last two heartbeats. */
  callsPerSecond(id: string): number | undefined {
    return this.known.get(id)?.callsPerSecond;
  }

  private recordNode(node: FleetNode, now: number, gained: Map<string, number>): void {
    const seen = node.seen === undefined ? now : Date.parse(node.seen);
    const before = this.known.get(node.id);
    if (before && before.seen >= seen) return;
    let callsPerSecond: number | undefined;
    if (before?.fleet && node.fleet) {
      for (const sync of node.fleet.sync ?? []) {
        const was = before.fleet.sync?.find((n) => n.mode === sync.mode);
        const key = seriesKey(node.region ?? "", sync.mode);
        if (was) gained.set(key, (gained.get(key) ?? 0) + grown(was.over, sync.over));
      }
      if (before.fleet.leases && node.fleet.leases) {
        callsPerSecond = (grown(before.fleet.leases.calls, node.fleet.leases.calls) * 1000) / (seen - before.seen);
      }
    }
    this.known.set(node.id, { seen, fleet: node.fleet, callsPerSecond });
  }

  private sum(region: string, nodes: FleetNode[], now: number, gained: Map<string, number>): RegionSum {
    const here = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
    const byMode = new Map<string, Sync[]>();
    for (const sync of here.flatMap((n) => n.fleet?.sync ?? [])) {
      add(byMode, sync.mode, sync);
    }
    const modes = [...byMode].map(([mode, list]) => {
      const key = seriesKey(region, mode);
      const made = sumSyncs(mode, list);
      made.points = this.recordPoint(key, { at: now, lag: made.lag, over: gained.get(key) ?? 0 });
      return made;
    });
    return {
      region,
      nodes: here.length,
      gone: nodes.length - here.length,
      modes: modes.sort((a, b) => (a.mode < b.mode ? -1 : 1)),
      leases: this.sumLeases(here),
    };
  }

  private recordPoint(key: string, point: Point): readonly Point[] {
    const points = [...(this.series.get(key) ?? []), point].filter((p) => point.at - p.at <= maxAge).slice(-maxPoints);
    this.series.set(key, points);
    return points;
  }

  private sumLeases(nodes: FleetNode[]): LeaseSum | undefined {
    const used = nodes.filter((n) => n.fleet?.leases !== undefined);
    if (used.length === 0) return undefined;
    const add = (of: (l: Leases) => number): number => used.reduce((sum, n) => sum + (n.fleet?.leases ? of(n.fleet.leases) : 0), 0);
    const rates = used.map((n) => this.callsPerSecond(n.id)).filter((r) => r !== undefined);
    return {
      keys: add((l) => l.keys),
      callsPerSecond: rates.length === 0 ? undefined : rates.reduce((a, b) => a + b, 0),
      granted: add((l) => l.granted),
      unused: add((l) => l.returned + l.expired),
      failed: add((l) => l.failed),
    };
  }
}

function add<T>(to: Map<string, T[]>, name: string, one: T): void {
  const list = to.get(name);
  if (list) list.push(one);
  else to.set(name, [one]);
}

function seriesKey(region: string, mode: string): string {
  return JSON.stringify([region, mode]);
}

/** Nodes without updates do not know the lag. */
function sumSyncs(mode: string, list: Sync[]): ModeSum {
  const updated = list.filter((n) => n.received > 0);
  return {
    mode,
    nodes: list.length,
    down: list.filter((n) => !n.up).length,
    lag: updated.length === 0 ? undefined : updated.reduce((sum, n) => sum + n.lag_ms, 0) / updated.length,
    lagMax: Math.max(0, ...list.map((n) => n.lag_max_ms)),
    over: list.reduce((sum, n) => sum + n.over, 0),
    overMax: Math.max(0, ...list.map((n) => n.over_max)),
    clocksOff: Math.max(0, ...list.map((n) => n.clocks_off)),
    points: [],
  };
}
