// The state of the fleet in a few sentences. Overview and Fleet show the same, so that they cannot contradict each other.

import type { Alert, Suspension } from "./api.ts";
import { plural, short } from "./format.ts";
import { serversDown, warningsOf, type NodesState, type State } from "./health.ts";
import type { Tone } from "./parts/notices.tsx";

export interface Fact {
  /** Good if nothing is wrong with it. */
  tone: Exclude<Tone, "plain">;
  text: string;
  /** The page with the details. */
  href: string;
}

/** The number of other namespaces whose problems are listed. */
const mostNamespaces = 3;

/** What is well and what is not, in the order in which to look at it. */
export function factsOf(state: State): Fact[] {
  const { health, here, degraded, timeouts, suspended, alerts, others } = state;
  const facts: Fact[] = [];
  const add = (tone: Fact["tone"], text: string, href: string): void => void facts.push({ tone, text, href });
  const inState = (of: string): Alert[] => alerts?.filter((a) => a.state === of) ?? [];
  const firing = inState("firing");
  const pending = inState("pending");
  const warned = warningsOf(here);
  const failing = [state, ...others].some((of) => of.degraded || of.timeouts);
  const down = serversDown(state).length;

  facts.push(...storeProblems(state, ""));
  if (!degraded && !timeouts) {
    if (here?.degraded && !failing) add("warn", "This node is degraded", "/fleet");
    else if (here && down === 0 && !failing) add("good", here.store.kind === "memory" ? "Counters in memory" : "Store reachable", "/stores");
  }
  if (down > 0 && !others.some((o) => o.degraded) && !degraded) add("warn", `${plural(down, "Redis server")} down`, "/stores");
  if (suspended.length > 0) add("warn", `Enforcement is off${switchedNodes(suspended)}${elsewhere(suspended, state.namespace)}`, "/rules");
  facts.push(...nodeProblems(state, ""));
  if (health.here > 0 && health.silent + health.late === 0) add("good", reporting(health.here), "/fleet");
  if (health.behind === 0 && health.here > 0) add("good", health.here === 1 ? "Rules up to date" : "Same rules everywhere", "/fleet");
  const faulty = others.map((o) => [...storeProblems(o, ` of ${short(o.namespace)}`), ...nodeProblems(o, ` of ${short(o.namespace)}`)]).filter((list) => list.length > 0);
  facts.push(...faulty.slice(0, mostNamespaces).flat());
  if (faulty.length > mostNamespaces) add("bad", `Problems in ${plural(faulty.length - mostNamespaces, "more namespace", "more namespaces")}`, "/fleet");
  if (others.length > 0 && faulty.length === 0) add("good", `${plural(others.length, "other namespace")} without problems`, "/fleet");
  if (warned > 0) add("warn", plural(warned, "warning"), "/fleet");
  const first = firing[0];
  const where = first?.namespace !== undefined && first.namespace !== state.namespace ? ` of ${short(first.namespace)}` : "";
  if (first) add(firing.some((a) => a.severity === "critical") ? "bad" : "warn", firing.length === 1 ? `Alert: ${first.condition.replaceAll("_", " ")}${where}` : `${firing.length} alerts`, "/alerts");
  else if (pending.length > 0) add("warn", `${plural(pending.length, "alert")} pending`, "/alerts");
  else if (alerts && !failing) add("good", "No alert fires", "/alerts");
  return facts;
}

/** Problems of the store of a namespace, whose name follows if it is not the one that is shown. */
function storeProblems({ degraded, timeouts }: NodesState, where: string): Fact[] {
  const facts: Fact[] = [];
  const add = (tone: Fact["tone"], text: string, { nodes, of }: { nodes: number; of: number }): void => {
    facts.push({ tone, text: text + (of > 1 ? ` on ${nodes} of ${of} nodes${where}` : where && ` on the node${where}`), href: "/stores" });
  };
  if (degraded) add("bad", "Store unreachable", degraded);
  if (timeouts?.until) add("warn", "Some calls of the store timed out", timeouts);
  else if (timeouts) add("bad", "Some calls of the store time out", timeouts);
  return facts;
}

/** Other problems of the nodes of a namespace. */
function nodeProblems({ health, degraded }: NodesState, where: string): Fact[] {
  const found: [number, Fact["tone"], string][] = [
    [health.silent, "warn", "silent"],
    [health.late, "warn", "late"],
    [degraded ? 0 : health.faulty, "bad", "with an error"],
    [health.behind, "warn", "with old rules"],
    [health.down, "bad", "without sync"],
  ];
  return found.filter(([nodes]) => nodes > 0).map(([nodes, tone, what]) => ({ tone, text: `${plural(nodes, "node")}${where} ${what}`, href: "/fleet" }));
}

/** Such as " on the node eu-2", if all switches were made on single nodes. */
function switchedNodes(suspended: readonly Suspension[]): string {
  if (suspended.some((s) => s.scope !== "node")) return "";
  const nodes = [...new Set(suspended.map((s) => s.node ?? "this node"))];
  const first = nodes[0] === "this node" ? "this node" : `the node ${nodes[0]}`;
  return ` on ${nodes.length === 1 ? first : plural(nodes.length, "node")}`;
}

/** Such as " of shop", if all switches are of one namespace that is not the one that is shown. */
function elsewhere(suspended: readonly Suspension[], shown: string): string {
  const names = [...new Set(suspended.map((s) => s.namespace ?? shown))];
  return names.length === 1 && names[0] !== undefined && names[0] !== shown ? ` of ${short(names[0])}` : "";
}

/** The facts that need attention. */
export function problemsOf(state: State): Fact[] {
  return factsOf(state).filter((f) => f.tone !== "good");
}

function reporting(nodes: number): string {
  if (nodes === 1) return "The node reports";
  return nodes === 2 ? "Both nodes report" : `All ${nodes} nodes report`;
}
