// What the banner says while calls of a store fail.

import type { Fallback } from "./api.ts";
import { short, stamp } from "./format.ts";
import type { NodesState, State } from "./health.ts";

export interface Failure {
  /** Undefined if it is the one that is shown. */
  namespace: string | undefined;
  /** The store does not respond. Otherwise some calls fail, and others succeed. */
  unreachable: boolean;
  /** The calls succeed again: nothing is failing now. */
  ended: boolean;
  nodes: number;
  of: number;
  since: string | undefined;
  until: string | undefined;
  reason: string;
  fallback: Fallback | undefined;
}

/** The failures of the namespace that is shown, and of the others. */
export function failuresOf(state: State): Failure[] {
  return [state, ...state.others].flatMap((of) => failureOf(of, state.namespace) ?? []);
}

function failureOf({ namespace, degraded, timeouts, fallback }: NodesState, shown: string): Failure | undefined {
  if (!degraded && !timeouts) return undefined;
  const until = degraded ? undefined : timeouts?.until;
  const failingOpen = (fallback?.open_rule_count ?? 0) > 0;
  const of = Math.max(degraded?.of ?? 0, timeouts?.of ?? 0);
  const partly = !degraded || (failingOpen && !timeouts?.until) ? (timeouts?.nodes ?? 0) : 0;
  return {
    namespace: namespace === shown ? undefined : namespace,
    unreachable: degraded !== undefined,
    ended: until !== undefined,
    nodes: Math.min((degraded?.nodes ?? 0) + partly, of),
    of,
    since: [fallback?.since, degraded?.since, timeouts?.since].filter((s) => s !== undefined).sort()[0],
    until,
    reason: degraded ? reasonOf(degraded.reason) : until ? "some calls of the store timed out" : "some calls of the store time out",
    fallback,
  };
}

/** Such as: Failing open since 12:03 on 2 of 3 nodes of the namespace shop. */
export function headingOf({ namespace, unreachable, ended, nodes, of, since, until, fallback }: Failure): string {
  const inside = namespace === undefined ? "" : ` of the namespace ${short(namespace)}`;
  const where = of > 1 || nodes > 1 ? ` on ${nodes} of ${of} nodes${inside}` : inside && ` on the node${inside}`;
  if (ended && until) return `Failed open${period(since, until)}${where}`;
  const what = (fallback?.open_rule_count ?? 0) > 0 || !unreachable ? "Failing open" : "Store unreachable";
  return `${what}${since ? ` since ${stamp(since).slice(11, 16)}` : ""}${where}`;
}

/** Such as " from 12:03:10 until 12:03:14", or " at 12:03:10" within a second. */
function period(since: string | undefined, until: string): string {
  const [from, to] = [since && stamp(since).slice(11, 19), stamp(until).slice(11, 19)];
  if (from === to) return ` at ${to}`;
  return from ? ` from ${from} until ${to}` : ` until ${to}`;
}

/** The error of a store without the name of a package and the system's own words, which the log has. */
export function reasonOf(error: string): string {
  return error.replace(/^(redis: )?redisstore: /, "Redis ").replace(/^(Redis \S+): is /, "$1 is ").replace(/ \((dial|read|write|context) [^)]*\)/, "");
}
