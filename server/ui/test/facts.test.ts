import assert from "node:assert/strict";
import { test } from "node:test";

import type { Alert, FleetNode, FleetServer, Status, Suspension } from "../src/api.ts";
import { factsOf, problemsOf } from "../src/facts.ts";
import { degradedOf, isOwnSwitch, latestNodes, serversDown, suspendedOf, type NodesState, type State } from "../src/health.ts";

const health = { here: 3, late: 0, silent: 0, behind: 0, faulty: 0, down: 0 };
const well: State = { namespace: "default", others: [], fallback: undefined, here: { store: { kind: "redis" } } as Status, nodes: [], health, degraded: undefined, timeouts: undefined, alerts: [], suspended: [], servers: [] };
const texts = (state: State): string[] => problemsOf(state).map((f) => f.text);
const alert = (condition: string, state: string): Alert => ({ condition, state, severity: "warning" }) as Alert;

test("a fleet without problems says what it is based on", () => {
  assert.deepEqual(texts(well), []);
  assert.deepEqual(factsOf(well).map((f) => f.text), ["Store reachable", "All 3 nodes report", "Same rules everywhere", "No alert fires"]);
});

test("no fact contradicts a problem", () => {
  const state: State = { ...well, degraded: { nodes: 2, of: 3, since: undefined, reason: "" }, health: { ...health, silent: 1, behind: 1 }, alerts: [alert("failing_open", "firing"), alert("store_slow", "resolved")] };
  assert.deepEqual(texts(state), ["Store unreachable on 2 of 3 nodes", "1 node silent", "1 node with old rules", "Alert: failing open"]);
  assert.deepEqual(factsOf(state).filter((f) => f.tone === "good"), []);
});

test("timeouts of some calls are told apart from a store that is unreachable", () => {
  const timeouts = { nodes: 2, of: 3, since: undefined, until: undefined };
  assert.deepEqual(texts({ ...well, timeouts }), ["Some calls of the store time out on 2 of 3 nodes"]);
  assert.deepEqual(texts({ ...well, timeouts: { ...timeouts, until: "2030-01-01T00:00:00Z" } }), ["Some calls of the store timed out on 2 of 3 nodes"]);
  assert.deepEqual(texts({ ...well, timeouts, degraded: { nodes: 1, of: 3, since: undefined, reason: "" } }), ["Store unreachable on 1 of 3 nodes", "Some calls of the store time out on 2 of 3 nodes"]);
  assert.deepEqual(factsOf({ ...well, timeouts }).filter((f) => f.tone === "good").map((f) => f.text), ["All 3 nodes report", "Same rules everywhere"]);
});

test("problems of other namespaces are named, and never more than fit", () => {
  const other = (namespace: string, of: Partial<NodesState>): NodesState => ({ namespace, health: { ...health, here: 2 }, degraded: undefined, timeouts: undefined, fallback: undefined, ...of });
  const degraded = { nodes: 1, of: 2, since: undefined, reason: "" };
  assert.deepEqual(texts({ ...well, others: [other("blog", {}), other("shop", { degraded, health: { ...health, silent: 1 } })] }), ["Store unreachable on 1 of 2 nodes of shop", "1 node of shop silent"]);
  const good = factsOf({ ...well, others: [other("blog", {}), other("shop", {})] });
  assert.deepEqual(good.filter((f) => f.tone !== "good"), []);
  assert.ok(good.some((f) => f.text === "2 other namespaces without problems"));
  const many = Array.from({ length: 9 }, (_, i) => other(`n${i}`, { degraded: { ...degraded, nodes: 1, of: 1 } }));
  assert.deepEqual(texts({ ...well, others: many }), [0, 1, 2].map((i) => `Store unreachable on the node of n${i}`).concat("Problems in 6 more namespaces"));
  assert.deepEqual(factsOf({ ...well, others: many }).filter((f) => f.href === "/stores" && f.tone === "good"), []);
  assert.deepEqual(texts({ ...well, alerts: [{ ...alert("failing_open", "firing"), namespace: "shop" }] }), ["Alert: failing open of shop"]);
});

test("nothing is green about alerts while a banner says that the store is unreachable", () => {
  const down = { nodes: 1, of: 3, since: undefined, reason: "" };
  assert.deepEqual(factsOf({ ...well, degraded: down }).filter((f) => f.href === "/alerts"), []);
  assert.deepEqual(texts({ ...well, alerts: [alert("failing_open", "pending")] }), ["1 alert pending"]);
  // The condition has ended: the alert is no banner and no problem any more.
  const resolving = [alert("failing_open", "resolving")];
  assert.deepEqual(texts({ ...well, alerts: resolving }), []);
});

const onNode: Suspension = { rule: "search", scope: "node", since: "2030-01-01T00:00:00Z", expires: "2030-01-01T01:00:00Z", by: "bootstrap" };

test("a switch of one node is a problem of the fleet, with its node", () => {
  const reported = { ...onNode, node: "eu-2", namespace: "default" };
  assert.deepEqual(suspendedOf({ enforcement_off: [onNode] } as Status, [reported]), [reported]);
  assert.deepEqual(suspendedOf({ enforcement_off: [onNode] } as Status, []), [onNode]);
  assert.ok(isOwnSwitch({ enforcement_off: [onNode] } as Status, reported));
  assert.ok(!isOwnSwitch({ enforcement_off: [] } as unknown as Status, reported));
  assert.deepEqual(texts({ ...well, suspended: [reported] }), ["Enforcement is off on the node eu-2"]);
  assert.deepEqual(texts({ ...well, suspended: [reported, { ...reported, scope: "fleet" }] }), ["Enforcement is off"]);
  assert.deepEqual(texts({ ...well, suspended: [{ ...reported, namespace: "shop" }] }), ["Enforcement is off on the node eu-2 of shop"]);
});

test("the nodes of a page are those of the banner", () => {
  const node = (id: string, store: string, namespace = "default"): FleetNode => ({ id, namespace, store }) as FleetNode;
  const shown = [node("a", "ok"), node("b", "ok")];
  assert.deepEqual(latestNodes(shown, [node("b", "redis: gone"), node("a", "redis: gone", "shop")]).map((n) => n.store), ["ok", "redis: gone"]);
  assert.deepEqual(latestNodes(shown, undefined), shown);
});

test("a primary that was replaced is down, and the store is not", () => {
  const here = { store: { kind: "redis", shards: [{ name: "a", up: false, replaced: true }, { name: "b", up: true }] } } as Status;
  assert.equal(degradedOf(here, [], 0), undefined);
  const servers = [{ server: "a", up: false }, { server: "b", up: true }, { server: "c", up: false }] as FleetServer[];
  assert.deepEqual(serversDown({ here, servers }), ["a", "c"]);
  assert.deepEqual(texts({ ...well, here, servers }), ["2 Redis servers down"]);
});
