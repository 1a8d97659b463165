import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Alerts, Fallback, WhoAmI } from "../src/api.ts";
import { readState } from "../src/health.ts";

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
  assert.deepEqual(state.fallbacks, [fallback]);
  assert.deepEqual(called.filter((path) => /^\/v1\/(traffic|rules)/.test(path)), [], "other figures are read");
});
