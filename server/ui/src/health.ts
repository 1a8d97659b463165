// The state of the fleet, read in one place, so that no page contradicts another.

import { createContext } from "preact";
import { useContext, useRef } from "preact/hooks";

import { call, clock, readStatus, type Alert, type Alerts, type Fallback, type FleetNode, type FleetServer, type Nodes, type Status, type Suspension, type WhoAmI } from "./api.ts";
import { healthOf, heartbeatOf, isTimingOut, type Health } from "./figures.ts";
import { usePoll } from "./poll.ts";
import type { Session } from "./session.ts";

export interface State {
  /** The node that serves the console. */
  here: Status | undefined;
  nodes: FleetNode[];
  health: Health;
  /** Nodes whose store is unreachable. */
  degraded: { nodes: number; of: number; since: string | undefined; reason: string } | undefined;
  /** Nodes for which some calls of the store fail while others succeed; until says that they have succeeded for a moment. */
  timeouts: { nodes: number; of: number; since: string | undefined; until: string | undefined } | undefined;
  /** Alerts that fire or were resolved lately; undefined if they cannot be read. */
  alerts: Alert[] | undefined;
  /** Rules that are not enforced for a time, on all nodes or on one. */
  suspended: Suspension[];
  /** The Redis servers of all nodes. */
  servers: FleetServer[];
  /** How nodes decide while their store fails, with the figures of the alert. */
  fallbacks: readonly Fallback[];
}

export const HealthContext = createContext<State | undefined>(undefined);

export function useHealth(): State | undefined {
  return useContext(HealthContext);
}

/** Reads the state every second. The last state stays until the next one is read, so that a banner does not vanish while somebody signs in. */
export function useFleetState(session: Session | undefined): State | undefined {
  const who = session?.who;
  const namespace = session?.namespace ?? "default";
  const polled = usePoll((signal) => readState(who, namespace, signal), JSON.stringify([who?.id, namespace]), 1_000);
  const last = useRef<State | undefined>(undefined);
  if (polled.data) last.current = polled.data;
  return last.current;
}

// A token that was revoked does not sign out here, as that would take what somebody is writing: the next call of a page does.
export async function readState(who: WhoAmI | undefined, namespace: string, signal: AbortSignal): Promise<State> {
  const [status, fleet, enforcement, alerts, stores] = await Promise.allSettled([
    readStatus(signal),
    who ? call<Nodes>("/v1/nodes", { query: { namespace }, signal, stay: true }) : Promise.resolve({ nodes: [] as FleetNode[] }),
    who ? readSuspensions(who, namespace, signal) : Promise.resolve([]),
    who ? call<Alerts>("/v1/alerts", { query: { namespace }, signal, stay: true }) : Promise.resolve(undefined),
    who ? call<{ servers: FleetServer[] }>("/v1/stores", { query: { namespace }, signal, stay: true }) : Promise.resolve({ servers: [] as FleetServer[] }),
  ]);
  if (status.status === "rejected" && fleet.status === "rejected") throw status.reason;
  const here = status.status === "fulfilled" ? status.value : undefined;
  const nodes = fleet.status === "fulfilled" ? fleet.value.nodes : [];
  const suspended = suspendedOf(here, enforcement.status === "fulfilled" ? enforcement.value : []);
  const { alerts: list, fallbacks = [] } = (alerts.status === "fulfilled" ? alerts.value : undefined) ?? {};
  const servers = stores.status === "fulfilled" ? stores.value.servers : [];
  const now = clock();
  return { here, nodes, servers, health: healthOf(nodes, now), degraded: degradedOf(here, nodes, now), timeouts: timeoutsOf(nodes, now), suspended, fallbacks, alerts: list };
}

/** The suspensions of the namespace, or of all if the token is for all. */
async function readSuspensions(who: WhoAmI, namespace: string, signal: AbortSignal): Promise<Suspension[]> {
  const all = who.namespaces.includes("*") ? "true" : undefined;
  return (await call<{ off: Suspension[] }>("/v1/enforcement", { query: { namespace, all_namespaces: all }, signal, stay: true })).off;
}

/** The node that serves the console knows its own suspensions before its heartbeat does, and those of the fleet while its rules service is unreachable. */
export function suspendedOf(here: Status | undefined, fleet: readonly Suspension[]): Suspension[] {
  const known = new Set(fleet.map(switchOf));
  const own = (here?.enforcement_off ?? []).filter((s) => (s.scope === "node" ? !known.has(switchOf(s)) : fleet.every((f) => f.scope === "node")));
  return [...fleet, ...own];
}

/** Identifies a switch: the node and the rules service describe the same one differently. */
const switchOf = ({ rule, since, expires, by }: Suspension): string => JSON.stringify([rule, since, expires, by]);

/** Whether the switch was made on the node that serves the console. */
export function isOwnSwitch(here: Status | undefined, s: Suspension): boolean {
  return s.scope === "node" && (here?.enforcement_off ?? []).some((own) => own.scope === "node" && switchOf(own) === switchOf(s));
}

/** The addresses of the servers that do not respond. The node that serves the console sees its own shards first. */
export function serversDown({ here, servers }: Pick<State, "here" | "servers">): string[] {
  const shards = (here?.store.shards ?? []).filter((s) => !s.up).map((s) => s.name ?? "");
  return [...new Set([...shards, ...servers.filter((s) => !s.up).map((s) => s.server)])];
}

/** The number of warnings of a node, about itself and its store. */
export function warningsOf(here: Status | undefined): number {
  return (here?.warnings?.length ?? 0) + (here?.store.warnings?.length ?? 0);
}

/** The nodes whose store is unreachable. The node that serves the console knows of itself before its heartbeat does. */
export function degradedOf(here: Status | undefined, nodes: readonly FleetNode[], now: number): State["degraded"] {
  const live = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
  const bad = live.filter((n) => n.store !== "ok");
  const down = (here?.store.shards ?? []).filter((s) => !s.up && !s.replaced);
  if (bad.length === 0 && down.length === 0) return undefined;
  const since = [...down.map((s) => s.since), ...bad.map((n) => n.store_since)].filter((s) => s !== undefined && !s.startsWith("0001")).sort()[0];
  const reason = down[0]?.error ?? bad[0]?.store ?? "";
  return { nodes: Math.max(bad.length, 1), of: Math.max(live.length, 1), since, reason };
}

/** The nodes that reach their store, although some of its calls fail. */
export function timeoutsOf(nodes: readonly FleetNode[], now: number): State["timeouts"] {
  const live = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
  const bad = live.filter((n) => isTimingOut(n) && heartbeatOf(n, now) === "now");
  if (bad.length === 0) return undefined;
  const since = bad.flatMap((n) => n.health?.unlimited_since ?? []).sort()[0];
  const ends = bad.map((n) => n.health?.unlimited_until ?? "").sort();
  return { nodes: bad.length, of: live.length, since, until: ends[0] === "" ? undefined : ends.at(-1) };
}
