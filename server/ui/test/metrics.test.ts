import assert from "node:assert/strict";
import { test } from "node:test";

import { decidedOf, fleetOf, parse } from "../src/metrics.ts";

const text = `# HELP headgate_sync_up Whether nodes hear of each other.
# TYPE headgate_sync_up gauge
headgate_sync_up{mode="async"} 1
headgate_sync_lag_seconds{mode="async",stat="mean"} 0.0125
headgate_sync_lag_seconds{mode="async",stat="max"} 0.25
headgate_sync_units_total{kind="applied",mode="async"} 120
headgate_sync_units_total{kind="over",mode="async"} 1.234567e+06
headgate_sync_over_max_units{mode="async"} 8
headgate_sync_updates_total{kind="received",mode="async"} 30
headgate_sync_keys{mode="async",state="waiting"} 2
headgate_fleet_nodes{state="known"} 3
headgate_fleet_nodes{state="live"} 2
headgate_lease_keys 4
headgate_lease_calls_total{result="failed"} 1
headgate_lease_calls_total{result="ok"} 9
headgate_lease_units_total{kind="granted"} 50
headgate_requests_total{verdict="allow"} 70
headgate_requests_total{verdict="drop"} 1
headgate_requests_total{verdict="reject"} 29
headgate_degraded_total{policy="open",rule="a \\"b\\" } c"} 5
headgate_breaker_state{shard="127.0.0.1:6379"} 1
headgate_breaker_state{shard="127.0.0.1:6380"} 0
go_goroutines 17
`;

test("a node's own metrics are read as heartbeats tell them", () => {
  const fleet = fleetOf(parse(text));
  assert.ok(fleet);
  assert.deepEqual([fleet.live, fleet.known], [2, 3]);
  const [sync] = fleet.sync ?? [];
  assert.deepEqual([sync?.mode, sync?.up, sync?.lag_ms, sync?.lag_max_ms, sync?.over, sync?.over_max, sync?.received, sync?.waiting], ["async", true, 12.5, 250, 1234567, 8, 30, 2]);
  assert.deepEqual([fleet.leases?.keys, fleet.leases?.calls, fleet.leases?.failed, fleet.leases?.granted], [4, 10, 1, 50]);
});

test("what was decided, and which circuits are open", () => {
  assert.deepEqual(decidedOf(parse(text)), { requests: 100, denied: 30, delayed: 0, degraded: 5, open: ["127.0.0.1:6379"], circuits: 2 });
});

test("labels may hold quotes, braces and backslashes", () => {
  const [sample] = parse(String.raw`headgate_degraded_total{rule="a \"b\" } \\ c",policy="open"} 5`);
  assert.deepEqual(sample, { name: "headgate_degraded_total", labels: { rule: String.raw`a "b" } \ c`, policy: "open" }, value: 5 });
});

test("a node that shares nothing has no fleet", () => {
  assert.equal(fleetOf(parse('headgate_requests_total{verdict="allow"} 7\n')), undefined);
});

test("what is not wanted is not kept", () => {
  assert.deepEqual(parse("go_goroutines 17\nheadgate_decisions_total{rule=\"x\"} 1\nnonsense\n"), []);
});
