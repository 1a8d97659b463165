// The state of the fleet in a few sentences. Overview and Fleet show the same, so that they cannot contradict each other.

import type { Alert, Suspension } from "./api.ts";
import { plural } from "./format.ts";
import { serversDown, warningsOf, type State } from "./health.ts";
import type { Tone } from "./parts/notices.tsx";

export interface Fact {
  /** Good if nothing is wrong with it. */
  tone: Exclude<Tone, "plain">;
  text: string;
  /** The page with the details. */
  href: string;
}

/** What is well and what is not, in the order in which to look at it. */
export function factsOf(state: State): Fact[] {
  const { health, here, degraded, timeouts, suspended, alerts } = state;
  const facts: Fact[] = [];
  const add = (tone: Fact["tone"], text: string, href: string): void => void facts.push({ tone, text, href });
  const inState = (of: string): Alert[] => alerts?.filter((a) => a.state === of) ?? [];
  const firing = inState("firing");
  const pending = inState("pending");
  const warned = warningsOf(here);

  const on = ({ nodes, of }: { nodes: number; of: number }): string => (of > 1 ? ` on ${nodes} of ${of} nodes` : "");
  if (degraded) add("bad", `Store unreachable${on(degraded)}`, "/stores");
  if (timeouts?.until) add("warn", `Some calls of the store timed out${on(timeouts)}`, "/stores");
  else if (timeouts) add("bad", `Some calls of the store time out${on(timeouts)}`, "/stores");
  if (degraded || timeouts) {
    // Nothing else is said of the store.
  } else if (here?.degraded) add("warn", "This node is degraded", "/fleet");
  else if (here && serversDown(state).length === 0) add("good", here.store.kind === "memory" ? "Counters in memory" : "Store reachable", "/stores");
  const down = serversDown(state).length;
  if (down > 0 && !degraded) add("warn", `${plural(down, "Redis server")} down`, "/stores");
  if (suspended.length > 0) add("warn", `Enforcement is off${switchedNodes(suspended)}`, "/rules");
  if (health.silent > 0) add("warn", `${plural(health.silent, "node")} silent`, "/fleet");
  if (health.late > 0) add("warn", `${plural(health.late, "node")} late`, "/fleet");
  if (health.faulty > 0 && !degraded) add("bad", `${plural(health.faulty, "node")} with an error`, "/fleet");
  if (health.here > 0 && health.silent + health.late === 0) add("good", reporting(health.here), "/fleet");
  if (health.behind > 0) add("warn", `${plural(health.behind, "node")} with old rules`, "/fleet");
  else if (health.here > 0) add("good", health.here === 1 ? "Rules up to date" : "Same rules everywhere", "/fleet");
  if (health.down > 0) add("bad", `${plural(health.down, "node")} without sync`, "/fleet");
  if (warned > 0) add("warn", plural(warned, "warning"), "/fleet");
  const first = firing[0];
  if (first) add(firing.some((a) => a.severity === "critical") ? "bad" : "warn", firing.length === 1 ? `Alert: ${first.condition.replaceAll("_", " ")}` : `${firing.length} alerts`, "/alerts");
  else if (pending.length > 0) add("warn", `${plural(pending.length, "alert")} pending`, "/alerts");
  else if (alerts && !degraded && !timeouts) add("good", "No alert fires", "/alerts");
  return facts;
}

/** Such as " on the node eu-2", if all switches were made on single nodes. */
function switchedNodes(suspended: readonly Suspension[]): string {
  if (suspended.some((s) => s.scope !== "node")) return "";
  const nodes = [...new Set(suspended.map((s) => s.node ?? "this node"))];
  const first = nodes[0] === "this node" ? "this node" : `the node ${nodes[0]}`;
  return ` on ${nodes.length === 1 ? first : plural(nodes.length, "node")}`;
}

/** The facts that need attention. */
export function problemsOf(state: State): Fact[] {
  return factsOf(state).filter((f) => f.tone !== "good");
}

function reporting(nodes: number): string {
  if (nodes === 1) return "The node reports";
  return nodes === 2 ? "Both nodes report" : `All ${nodes} nodes report`;
}
