import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes } from "../src/format.ts";
import { StoreTrack } from "../src/storefigures.ts";

const metrics = (received: number, fast: number, all: number, errors: number): string => `
headgate_breaker_state{shard="a:1"} 2
headgate_redis_up{role="primary",server="a:1"} 1
headgate_redis_cpu_cores{role="primary",server="a:1"} 0.25
headgate_redis_memory_bytes{role="primary",server="a:1"} 2048
headgate_redis_operations_per_second{role="primary",server="a:1"} 143
headgate_redis_ping_seconds{role="primary",server="a:1"} 0.0005
headgate_redis_network_bytes_total{direction="in",role="primary",server="a:1"} ${received}
headgate_redis_network_bytes_total{direction="out",role="primary",server="a:1"} 7
headgate_redis_up{role="replica",server="b:2"} 0
headgate_store_seconds_bucket{op="take",store="redis",le="0.001"} ${fast}
headgate_store_seconds_bucket{op="take",store="redis",le="0.02"} ${all}
headgate_store_seconds_bucket{op="take",store="redis",le="+Inf"} ${all}
headgate_store_shard_seconds_bucket{shard="a:1",le="0.001"} ${fast}
headgate_store_shard_seconds_bucket{shard="a:1",le="0.02"} ${all}
headgate_store_shard_seconds_bucket{shard="a:1",le="+Inf"} ${all}
headgate_store_errors_total{op="take",store="redis"} ${errors}
`;

test("servers of the store have their figures, and rates between two readings", () => {
  const track = new StoreTrack();
  const first = track.update(metrics(1000, 10, 10, 0), 5_000);
  assert.equal(first.calls, undefined);
  assert.equal(first.servers[0]?.received, undefined);
  const { servers, calls } = track.update(metrics(5000, 100, 110, 4), 7_000);
  const [a, b] = servers;
  assert.deepEqual(servers.map((s) => s.name), ["a:1", "b:2"]);
  assert.deepEqual([a?.role, a?.up, a?.circuit, a?.cpu, a?.memory, a?.operations, a?.ping], ["primary", true, "half-open", 0.25, 2048, 143, 0.5]);
  assert.deepEqual([a?.received, a?.sent, a?.history], [2000, undefined, [143, 143]]);
  assert.equal(track.update(metrics(5000, 100, 110, 4), 9_000).servers[0]?.received, 2000, "the counter is read every few seconds");
  assert.equal(track.update(metrics(5000, 100, 110, 4), 60_000).servers[0]?.received, 0);
  assert.deepEqual([b?.role, b?.up, b?.circuit, b?.cpu], ["replica", false, undefined, undefined]);
  assert.deepEqual([a?.p99, b?.p99], [20, undefined]);
  assert.deepEqual(calls, { perSecond: 50, errorsPerSecond: 2, median: 1, p99: 20 });
});

test("a reading without calls has no latency", () => {
  const track = new StoreTrack();
  track.update(metrics(0, 10, 10, 0), 0);
  assert.deepEqual(track.update(metrics(0, 10, 10, 0), 1_000).calls, { perSecond: 0, errorsPerSecond: 0, median: undefined, p99: undefined });
});

test("bytes have the unit that fits", () => {
  assert.deepEqual([0, 999, 1_500, 1_689_064, 3.2e9].map(bytes), ["0\u202fB", "999\u202fB", "1.5\u202fkB", "1.7\u202fMB", "3.2\u202fGB"]);
});
