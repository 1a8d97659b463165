// The state of the fleet, read in one place, so that no page contradicts another.

import { createContext } from "preact";
import { useContext, useRef } from "preact/hooks";

import { call, clock, readStatus, type Alert, type Alerts, type Fallback, type FleetNode, type FleetServer, type Nodes, type Status, type Suspension, type WhoAmI } from "./api.ts";
import { healthOf, heartbeatOf, isTimingOut, type Health } from "./figures.ts";
import { usePoll } from "./poll.ts";
import type { Session } from "./session.ts";

/** The state of the nodes of a namespace. */
export interface NodesState {
  namespace: string;
  health: Health;
  /** Nodes whose store is unreachable. */
  degraded: { nodes: number; of: number; since: string | undefined; reason: string } | undefined;
  /** Nodes for which some calls of the store fail while others succeed; until says that they have succeeded for a moment. */
  timeouts: { nodes: number; of: number; since: string | undefined; until: string | undefined } | undefined;
  /** How nodes decide while their store fails, with the figures of the alert. */
  fallback: Fallback | undefined;
}

/** The state of the namespace that is shown, and of the others of the token. */
export interface State extends NodesState {
  /** The node that serves the console. */
  here: Status | undefined;
  /** The nodes of all namespaces. */
  nodes: FleetNode[];
  /** The other namespaces with nodes. */
  others: NodesState[];
  /** Alerts that fire or were resolved lately; undefined if they cannot be read. */
  alerts: Alert[] | undefined;
  /** Rules that are not enforced for a time, on all nodes or on one. */
  suspended: Suspension[];
  /** The Redis servers of all nodes. */
  servers: FleetServer[];
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
  // The namespaces for which the token is valid: failures of the others must be seen, too.
  const read = async <T>(path: string): Promise<T | undefined> => (who ? call<T>(path, { query: { namespace, all_namespaces: "true" }, signal, stay: true }) : undefined);
  const [status, fleet, enforcement, alerts, stores] = await Promise.allSettled([
    readStatus(signal),
    read<Nodes>("/v1/nodes"),
    read<{ off: Suspension[] }>("/v1/enforcement"),
    read<Alerts>("/v1/alerts"),
    read<{ servers: FleetServer[] }>("/v1/stores"),
  ]);
  if (status.status === "rejected" && (!who || fleet.status === "rejected")) throw status.reason;
  const valueOf = <T>(result: PromiseSettledResult<T>): T | undefined => (result.status === "fulfilled" ? result.value : undefined);
  const here = valueOf(status);
  const nodes = valueOf(fleet)?.nodes ?? [];
  const { alerts: list, fallbacks = [] } = valueOf(alerts) ?? {};
  const stateOf = (of: string): NodesState => nodesStateOf(of, namespaceOf(here, namespace) === of ? here : undefined, nodes, fallbacks);
  const others = [...new Set([...nodes.map((n) => n.namespace), namespaceOf(here, namespace)])].filter((n) => n !== namespace).sort();
  return {
    ...stateOf(namespace),
    here,
    nodes,
    others: others.map(stateOf),
    servers: valueOf(stores)?.servers ?? [],
    suspended: suspendedOf(here, valueOf(enforcement)?.off ?? []),
    alerts: list,
  };
}

/** The namespace of the node that serves the console: the shown one if it is not known. */
function namespaceOf(here: Status | undefined, shown: string): string {
  return here?.rules?.follow?.namespace ?? shown;
}

function nodesStateOf(namespace: string, here: Status | undefined, all: readonly FleetNode[], fallbacks: readonly Fallback[]): NodesState {
  const nodes = all.filter((n) => n.namespace === namespace);
  const now = clock();
  return {
    namespace,
    health: healthOf(nodes, now),
    degraded: degradedOf(here, nodes, now),
    timeouts: timeoutsOf(nodes, now),
    fallback: fallbacks.find((f) => f.namespace === namespace),
  };
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

/** The nodes of a page as the banner has them, so that the page does not contradict it while one of them is read again. */
export function latestNodes(nodes: readonly FleetNode[], state: readonly FleetNode[] = []): FleetNode[] {
  const key = (n: FleetNode): string => `${n.namespace}/${n.id}`;
  const known = new Map(state.map((n) => [key(n), n]));
  return nodes.map((n) => known.get(key(n)) ?? n);
}

/** The nodes whose store is unreachable. The node that serves the console knows of itself before its heartbeat does. */
export function degradedOf(here: Status | undefined, nodes: readonly FleetNode[], now: number): NodesState["degraded"] {
  const live = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
  const bad = live.filter((n) => n.store !== "ok");
  const down = (here?.store.shards ?? []).filter((s) => !s.up && !s.replaced);
  if (bad.length === 0 && down.length === 0) return undefined;
  const since = [...down.map((s) => s.since), ...bad.map((n) => n.store_since)].filter((s) => s !== undefined && !s.startsWith("0001")).sort()[0];
  const reason = down[0]?.error ?? bad[0]?.store ?? "";
  return { nodes: Math.max(bad.length, 1), of: Math.max(live.length, 1), since, reason };
}

/** The nodes that reach their store, although some of its calls fail. */
export function timeoutsOf(nodes: readonly FleetNode[], now: number): NodesState["timeouts"] {
  const live = nodes.filter((n) => heartbeatOf(n, now) !== "gone");
  const bad = live.filter((n) => isTimingOut(n) && heartbeatOf(n, now) === "now");
  if (bad.length === 0) return undefined;
  const since = bad.flatMap((n) => n.health?.unlimited_since ?? []).sort()[0];
  const ends = bad.map((n) => n.health?.unlimited_until ?? "").sort();
  return { nodes: bad.length, of: live.length, since, until: ends[0] === "" ? undefined : ends.at(-1) };
}
