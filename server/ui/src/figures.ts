// What the fleet's figures come to: rates between two heartbeats, sums by region, and what they were over the last minutes.

import type { Fleet, FleetNode, Leases, Sync } from "./api.ts";

/** How many looks are remembered, and how far back they go at most. */
export const remembered = 150;
export const reach = 5 * 60_000;

/** After how long without a heartbeat, which comes every 10 s, a node is late, and taken for gone as the rules service does. */
const lateAfter = 30_000;
const goneAfter = 180_000;

export type Heard = "now" | "late" | "gone";

/** How a fleet is as a whole: how many of its nodes are what. One that is silent has had its faults. */
export interface Health {
  here: number;
  late: number;
  silent: number;
  behind: number;
  ill: number;
  down: number;
}

export function healthOf(nodes: readonly FleetNode[], now: number): Health {
  const here = nodes.filter((n) => heardOf(n, now) !== "gone");
  return {
    here: here.length,
    late: here.filter((n) => heardOf(n, now) === "late").length,
    silent: nodes.length - here.length,
    behind: here.filter((n) => n.behind).length,
    ill: here.filter(isIll).length,
    down: here.filter(hasNoSync).length,
  };
}

const isIll = (n: FleetNode): boolean => n.store !== "ok" || !!n.error;
const hasNoSync = (n: FleetNode): boolean => (n.fleet?.sync ?? []).some((m) => !m.up);

/**
 * The nodes to show where not all can be: those that need a look come first, and otherwise the order stays. Those that are silent get half of
 * the room at most before the others, which a fleet that was renewed has as many of as it has nodes.
 */
export function urgent(nodes: readonly FleetNode[], most: number, now: number): FleetNode[] {
  if (nodes.length <= most) return [...nodes];
  const ill: FleetNode[] = [];
  const well: FleetNode[] = [];
  const gone: FleetNode[] = [];
  for (const n of nodes) {
    const heard = heardOf(n, now);
    if (heard === "gone") gone.push(n);
    else if (heard === "late" || isIll(n) || hasNoSync(n) || n.behind) ill.push(n);
    else well.push(n);
  }
  const half = Math.floor(most / 2);
  return [...ill, ...gone.slice(0, half), ...well, ...gone.slice(half)].slice(0, most);
}

export function heardOf(node: FleetNode, now: number): Heard {
  const silent = node.seen === undefined ? 0 : now - Date.parse(node.seen);
  if (silent > goneAfter) return "gone";
  return silent > lateAfter ? "late" : "now";
}

/** One look at the sync of a region under one mode. */
export interface Point {
  at: number;
  /** Milliseconds; undefined while nothing was heard. */
  lag: number | undefined;
  /** Units beyond limits that were told since the look before. */
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

/** A memory of what nodes said, bounded by the nodes there are. */
export class Track {
  private readonly known = new Map<string, Known>();
  private readonly series = new Map<string, Point[]>();

  /** Takes the nodes as they are now, and returns what they come to by region. */
  look(nodes: readonly FleetNode[], now: number): RegionSum[] {
    const gained = new Map<string, number>();
    for (const node of nodes) this.hear(node, now, gained);
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

  private hear(node: FleetNode, now: number, gained: Map<string, number>): void {
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
    const here = nodes.filter((n) => heardOf(n, now) !== "gone");
    const byMode = new Map<string, Sync[]>();
    for (const sync of here.flatMap((n) => n.fleet?.sync ?? [])) {
      add(byMode, sync.mode, sync);
    }
    const modes = [...byMode].map(([mode, list]) => {
      const key = seriesKey(region, mode);
      const made = sumSync(mode, list);
      made.points = this.remember(key, { at: now, lag: made.lag, over: gained.get(key) ?? 0 });
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

  private remember(key: string, point: Point): readonly Point[] {
    const points = [...(this.series.get(key) ?? []), point].filter((p) => point.at - p.at <= reach).slice(-remembered);
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

/** Only who has heard something knows how old sync is. */
function sumSync(mode: string, list: Sync[]): ModeSum {
  const heard = list.filter((n) => n.received > 0);
  return {
    mode,
    nodes: list.length,
    down: list.filter((n) => !n.up).length,
    lag: heard.length === 0 ? undefined : heard.reduce((sum, n) => sum + n.lag_ms, 0) / heard.length,
    lagMax: Math.max(0, ...list.map((n) => n.lag_max_ms)),
    over: list.reduce((sum, n) => sum + n.over, 0),
    overMax: Math.max(0, ...list.map((n) => n.over_max)),
    clocksOff: Math.max(0, ...list.map((n) => n.clocks_off)),
    points: [],
  };
}
