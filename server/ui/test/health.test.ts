import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Alerts, Fallback, FleetNode, WhoAmI } from "../src/api.ts";
import { failuresOf, headingOf } from "../src/failure.ts";
import { isTimingOut, urgent } from "../src/figures.ts";
import { readState, timeoutsOf, type NodesState, type State } from "../src/health.ts";

const json = (body: unknown): Response => new Response(JSON.stringify(body));
const down = { store: { kind: "redis", shards: [{ name: "127.0.0.1:6379", up: false, error: "gone" }] } };
const fallback: Fallback = {
  namespace: "default", unlimited_per_second: 90, open_rules: Array.from({ length: 20 }, (_, i) => `r${i}`), open_rule_count: 30,
  other_rules: ["strict"], nodes: ["eu-1"], node_count: 1, live_nodes: 2, since: "2030-01-01T00:00:00Z",
};

/** Responds to calls, and returns the paths that were called. */
function serve(t: TestContext, responses: { [path: string]: unknown }): string[] {
  const called: string[] = [];
  t.mock.method(globalThis, "fetch", async (input: string) => {
    called.push(input);
    return json(responses[input.split("?")[0] ?? ""] ?? {});
  });
  return called;
}

const who = (...namespaces: string[]): WhoAmI => ({ id: "ada", role: "viewer", namespaces });
const alerts: Alerts = { firing: 0, alerts: [], fallbacks: [fallback] };
const healthy = { "/v1/nodes": { nodes: [], revision: 1 }, "/v1/enforcement": { off: [] }, "/v1/stores": { servers: [] } };

test("the banner has the rate and the rules of the alert, whatever their number", async (t) => {
  const called = serve(t, { ...healthy, "/readyz": down, "/v1/alerts": alerts });
  const state = await readState(who("default"), "default", new AbortController().signal);
  assert.deepEqual(state.fallback, fallback);
  assert.deepEqual(called.filter((path) => /^\/v1\/(traffic|rules)/.test(path)), [], "other figures are read");
});

const now = Date.parse("2030-01-01T00:00:20Z");

/** A node that reaches its store, with calls that fail since a second, and perhaps until another. */
function timingOut(id: string, since: string, until?: string): FleetNode {
  const at = (second: string): string => `2030-01-01T00:00:${second}Z`;
  const health = { failing_open: [{ rule: "search" }], unlimited_since: at(since), ...(until ? { unlimited_until: at(until) } : {}) };
  return { id, namespace: "default", version: "1", revision: 1, lag_ms: 0, store: "ok", started: "", seen: at("19"), health };
}

test("a node is failing as soon as its heartbeat says so, and the end is said", async (t) => {
  const well: FleetNode = { ...timingOut("well", "01"), health: {} };
  assert.equal(timeoutsOf([well], now), undefined);
  assert.deepEqual(timeoutsOf([well, timingOut("a", "05"), timingOut("b", "03", "18")], now), {
    nodes: 2, of: 3, since: "2030-01-01T00:00:03Z", until: undefined,
  });
  assert.equal(timeoutsOf([timingOut("a", "05", "19"), timingOut("b", "03", "18")], now)?.until, "2030-01-01T00:00:19Z");
  assert.equal(timeoutsOf([timingOut("a", "05")], now + 31_000), undefined, "a node without heartbeats");
  assert.ok(!isTimingOut({ ...timingOut("a", "05"), store: "redis: refused" }), "it is unreachable");
  assert.deepEqual(urgent([well, timingOut("a", "05")], 1, now).map((n) => n.id), ["a"]);

  // No alert fires yet.
  serve(t, { ...healthy, "/readyz": { store: { kind: "redis", shards: [{ up: true }] } }, "/v1/alerts": alerts, "/v1/nodes": { nodes: [{ ...timingOut("a", "05"), seen: undefined }] } });
  const state = await readState(who("default"), "default", new AbortController().signal);
  assert.deepEqual([state.timeouts?.nodes, state.degraded], [1, undefined]);
});

const well: State = {
  namespace: "default", here: undefined, nodes: [], others: [], health: { here: 3, late: 0, silent: 0, behind: 0, faulty: 0, down: 0 },
  degraded: undefined, timeouts: undefined, fallback: undefined, alerts: [], suspended: [], servers: [],
};

const headings = (state: Partial<State>): string[] =>
  failuresOf({ ...well, ...state }).map((f) => headingOf(f).replaceAll(/\d\d:\d\d(:\d\d)?/g, (time) => (time.length > 5 ? "H:M:S" : "H:M")));

const since = "2030-01-01T00:00:00Z";
const degraded = { nodes: 1, of: 3, since, reason: "gone" };

test("the banner says what fails, and never more nodes than there are", () => {
  const timeouts = { nodes: 2, of: 3, since, until: undefined };
  assert.deepEqual(headings({}), []);
  assert.deepEqual(headings({ fallback }), []);
  assert.deepEqual(headings({ degraded }), ["Store unreachable since H:M on 1 of 3 nodes"]);
  assert.deepEqual(headings({ degraded, timeouts }), ["Store unreachable since H:M on 1 of 3 nodes"]);
  assert.deepEqual(headings({ degraded, timeouts, fallback }), ["Failing open since H:M on 3 of 3 nodes"]);
  assert.deepEqual(headings({ degraded: { ...degraded, nodes: 2 }, timeouts, fallback }), ["Failing open since H:M on 3 of 3 nodes"]);
  assert.deepEqual(headings({ timeouts, fallback }), ["Failing open since H:M on 2 of 3 nodes"]);
  assert.deepEqual(headings({ timeouts: { ...timeouts, until: since }, fallback }), ["Failed open at H:M:S on 2 of 3 nodes"]);
  assert.deepEqual(headings({ timeouts: { ...timeouts, until: "2030-01-01T00:00:04Z" }, fallback }), ["Failed open from H:M:S until H:M:S on 2 of 3 nodes"]);
  assert.equal(failuresOf({ ...well, timeouts })[0]?.reason, "some calls of the store time out");
});

test("a token for all namespaces sees that nodes of another namespace fail open", async (t) => {
  const other: NodesState = { ...well, namespace: "shop", degraded, fallback: { ...fallback, namespace: "shop" } };
  assert.deepEqual(headings({ others: [other] }), ["Failing open since H:M on 1 of 3 nodes of the namespace shop"]);
  assert.deepEqual(headings({ degraded, others: [{ ...other, degraded: { ...degraded, of: 1 } }] }), [
    "Store unreachable since H:M on 1 of 3 nodes", "Failing open since H:M on the node of the namespace shop",
  ]);
  const nodes = [{ ...timingOut("a", "05"), namespace: "shop", seen: undefined, store: "redis: gone" }, { ...timingOut("b", "05"), seen: undefined, health: {} }];
  const called = serve(t, { ...healthy, "/readyz": { store: { kind: "memory" } }, "/v1/alerts": { ...alerts, fallbacks: [{ ...fallback, namespace: "shop" }] }, "/v1/nodes": { nodes } });
  const state = await readState(who("*"), "default", new AbortController().signal);
  assert.deepEqual([state.degraded, state.fallback, state.health.here], [undefined, undefined, 1]);
  assert.deepEqual(state.others.map((o) => [o.namespace, o.degraded?.nodes, o.fallback?.unlimited_per_second]), [["shop", 1, 90]]);
  assert.deepEqual(called.filter((path) => path.startsWith("/v1/") && !path.includes("all_namespaces=true")), []);
});
