import assert from "node:assert/strict";
import { test } from "node:test";

import type { Alert, Status } from "../src/api.ts";
import { factsOf, problemsOf } from "../src/facts.ts";
import type { State } from "../src/health.ts";

const health = { here: 3, late: 0, silent: 0, behind: 0, faulty: 0, down: 0 };
const well: State = { here: { store: { kind: "redis" } } as Status, nodes: [], health, degraded: undefined, alerts: [], suspended: [], unlimited: undefined };
const texts = (state: State): string[] => problemsOf(state).map((f) => f.text);
const alert = (condition: string, state: string): Alert => ({ condition, state, severity: "warning" }) as Alert;

test("a fleet without problems says what it is based on", () => {
  assert.deepEqual(texts(well), []);
  assert.deepEqual(factsOf(well).map((f) => f.text), ["Store reachable", "All 3 nodes report", "Same rules everywhere", "No alerts"]);
});

test("no fact contradicts a problem", () => {
  const state: State = { ...well, degraded: { nodes: 2, of: 3, since: undefined, reason: "" }, health: { ...health, silent: 1, behind: 1 }, alerts: [alert("failing_open", "firing"), alert("store_slow", "resolved")] };
  assert.deepEqual(texts(state), ["Store unreachable on 2 of 3 nodes", "1 node silent", "1 node with old rules", "Alert: failing open"]);
  assert.deepEqual(factsOf(state).filter((f) => f.tone === "good"), []);
});
