import assert from "node:assert/strict";
import { test } from "node:test";

import type { FleetNode, Sync } from "../src/api.ts";
import { grown, healthOf, heartbeatOf, maxPoints, Track, urgent } from "../src/figures.ts";

const began = Date.parse("2026-11-15T12:00:00Z");

function sync(mode: string, of: Partial<Sync>): Sync {
  const none = { lag_ms: 0, lag_max_ms: 0, over: 0, over_max: 0, applied: 0, lost: 0, clock_ahead_ms: 0, clocks_off: 0, keys: 0, waiting: 0 };
  return { mode, up: true, ...none, sent: 0, received: 1, failed: 0, refused: 0, ...of };
}

function node(id: string, region: string, at: number, list: Sync[], calls?: number): FleetNode {
  const fleet = { live: 1, known: 1, sync: list, ...(calls === undefined ? {} : { leases: { keys: 1, calls, failed: 0, granted: 100, returned: 20, expired: 5 } }) };
  const seen = new Date(at).toISOString();
  return { id, region, namespace: "default", version: "v", revision: 1, lag_ms: 0, store: "ok", started: seen, seen, fleet };
}

test("a region is the sum of its nodes, mode by mode", () => {
  const sums = new Track().update(
    [
      node("b", "us", began, [sync("async", { lag_ms: 5, over: 1, over_max: 1 })]),
      node("a1", "eu", began, [sync("async", { lag_ms: 10, lag_max_ms: 40, over: 3, over_max: 2 }), sync("global", { lag_ms: 900, up: false })]),
      node("a2", "eu", began, [sync("async", { lag_ms: 30, lag_max_ms: 35, over: 4, over_max: 4 })]),
    ],
    began,
  );
  assert.deepEqual(sums.map((s) => [s.region, s.nodes]), [["eu", 2], ["us", 1]]);
  const [async, global] = sums[0]!.modes;
  assert.deepEqual([async!.mode, async!.lag, async!.lagMax, async!.over, async!.overMax, async!.down], ["async", 20, 40, 7, 4, 0]);
  assert.deepEqual([global!.mode, global!.lag, global!.nodes, global!.down], ["global", 900, 1, 1]);
});

test("a node that has heard nothing does not make sync look younger", () => {
  const [sum] = new Track().update([node("a", "", began, [sync("async", { lag_ms: 40 })]), node("b", "", began, [sync("async", { received: 0 })])], began);
  assert.equal(sum!.modes[0]!.lag, 40);
  const [none] = new Track().update([node("b", "", began, [sync("async", { received: 0 })])], began);
  assert.equal(none!.modes[0]!.lag, undefined);
});

test("what passed beyond limits is drawn once, when a heartbeat tells of it", () => {
  const track = new Track();
  const at = (ms: number, over: number, seen: number) => track.update([node("a", "", began + seen, [sync("async", { over })])], began + ms)[0]!.modes[0]!.points.map((p) => p.over);
  assert.deepEqual(at(0, 5, 0), [0]); // from before anybody looked
  assert.deepEqual(at(2_000, 5, 0), [0, 0]);
  assert.deepEqual(at(4_000, 9, 3_000), [0, 0, 4]);
  assert.deepEqual(at(6_000, 9, 3_000), [0, 0, 4, 0]);
  assert.deepEqual(at(8_000, 2, 7_000), [0, 0, 4, 0, 2]); // it was restarted
});

test("calls a second are those between two heartbeats", () => {
  const track = new Track();
  track.update([node("a", "", began, [], 100)], began);
  assert.equal(track.callsPerSecond("a"), undefined);
  const [sum] = track.update([node("a", "", began + 10_000, [], 350)], began + 10_000);
  assert.equal(track.callsPerSecond("a"), 25);
  assert.deepEqual([sum!.leases!.callsPerSecond, sum!.leases!.granted, sum!.leases!.unused], [25, 100, 25]);
});

test("nodes that are gone count no more, and nothing of them is kept", () => {
  const track = new Track();
  const [sum] = track.update([node("a", "", began, [sync("async", { over: 7 })]), node("b", "", began + 200_000, [sync("async", { over: 1 })])], began + 200_000);
  assert.deepEqual([sum!.nodes, sum!.gone, sum!.modes[0]!.over], [1, 1, 1]);
  track.update([], began + 201_000);
  assert.equal(track.callsPerSecond("a"), undefined);
});

test("no more is maxPoints than is drawn", () => {
  const track = new Track();
  let points = 0;
  for (let i = 0; i < 3 * maxPoints; i++) points = track.update([node("a", "", began + i, [sync("async", {})])], began + i)[0]!.modes[0]!.points.length;
  assert.equal(points, maxPoints);
});

test("a counter that is smaller than before was reset", () => {
  assert.equal(grown(10, 15), 5);
  assert.equal(grown(10, 4), 4);
});

test("a node is late after three heartbeats, and gone after three minutes", () => {
  const n = node("a", "", began, []);
  assert.deepEqual([0, 29_000, 31_000, 179_000, 181_000].map((ms) => heartbeatOf(n, began + ms)), ["now", "now", "late", "late", "gone"]);
});

test("a fleet is not well while a node is late or silent", () => {
  const now = began + 200_000;
  const nodes = [node("well", "", now, []), node("late", "", now - 40_000, []), node("silent", "", began, [])];
  assert.deepEqual(healthOf(nodes, now), { here: 2, late: 1, silent: 1, behind: 0, faulty: 0, down: 0 });
  const ill = [{ ...node("store", "", now, []), store: "redis: away" }, { ...node("rules", "", now, []), error: "refused" }, { ...node("old", "", now, []), behind: true }];
  assert.deepEqual(healthOf([...ill, node("deaf", "", now, [sync("async", { up: false })])], now), { here: 4, late: 0, silent: 0, behind: 1, faulty: 2, down: 1 });
});

test("where not all nodes can be shown, those that need a look are", () => {
  const nodes = Array.from({ length: 10 }, (_, i) => node(`n${i}`, "", began, []));
  nodes[8]!.store = "redis: away";
  assert.deepEqual(urgent(nodes, 3, began).map((n) => n.id), ["n8", "n0", "n1"]);
  assert.deepEqual(urgent(nodes, 10, began).map((n) => n.id), nodes.map((n) => n.id));
  const now = began + 200_000;
  const renewed = [...nodes, node("new", "", now, []), { ...node("ill", "", now, []), behind: true }];
  assert.deepEqual(urgent(renewed, 4, now).map((n) => n.id), ["ill", "n0", "n1", "new"]);
});

test("ten thousand nodes are summed in no time", () => {
  const nodes = Array.from({ length: 10_000 }, (_, i) => node(`n${i}`, "one", began, [sync("async", { over: 1 })]));
  const [sum] = new Track().update(nodes, began);
  assert.deepEqual([sum!.nodes, sum!.modes[0]!.over], [10_000, 10_000]);
});
