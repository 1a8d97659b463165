// A node's own figures from its /metrics, in the form that heartbeats have: what a node knows of itself without a rules service.

import type { Fleet, Leases, Sync } from "./api.ts";

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** What the console reads of the many series there are: those of rules and upstreams may be thousands. */
const wanted = /^headgate_(requests_total|degraded_total|breaker_state|store_seconds_(?:sum|count)|store_errors_total|sync_|lease_|fleet_nodes|build_info)/;

const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/g;

/** Reads the text format of Prometheus, as far as it is wanted. */
export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    if (!wanted.test(line)) continue;
    const open = line.indexOf("{");
    const close = line.lastIndexOf("}");
    const cut = open < 0 ? line.indexOf(" ") : close + 1;
    const value = Number(line.slice(cut).trim().split(" ")[0]);
    if (Number.isNaN(value)) continue;
    const labels: Record<string, string> = {};
    if (open >= 0) {
      for (const [, name, quoted] of line.slice(open + 1, close).matchAll(label)) {
        if (name !== undefined && quoted !== undefined) labels[name] = quoted.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
      }
    }
    samples.push({ name: line.slice(0, open < 0 ? cut : open), labels, value });
  }
  return samples;
}

function sum(samples: Sample[], name: string, labels: Record<string, string> = {}): number {
  let total = 0;
  for (const s of samples) {
    if (s.name === name && Object.entries(labels).every(([k, v]) => s.labels[k] === v)) total += s.value;
  }
  return total;
}

const has = (samples: Sample[], name: string): boolean => samples.some((s) => s.name === name);

/** Requests that were decided, by what became of them, and what went wrong. All are counted from the node's start. */
export interface Decided {
  requests: number;
  denied: number;
  delayed: number;
  degraded: number;
  /** The servers of the store whose circuit is open, and how many there are. */
  open: string[];
  circuits: number;
}

export function decidedOf(samples: Sample[]): Decided {
  const verdict = (v: string): number => sum(samples, "headgate_requests_total", { verdict: v });
  const circuits = samples.filter((s) => s.name === "headgate_breaker_state");
  return {
    requests: sum(samples, "headgate_requests_total"),
    denied: verdict("reject") + verdict("drop"),
    delayed: verdict("delay"),
    degraded: sum(samples, "headgate_degraded_total"),
    open: circuits.filter((s) => s.value === 1).map((s) => s.labels["shard"] ?? ""),
    circuits: circuits.length,
  };
}

/** The fleet as the node sees it; undefined if it shares nothing with others. */
export function fleetOf(samples: Sample[]): Fleet | undefined {
  const sync = samples.filter((s) => s.name === "headgate_sync_up").map((s) => syncOf(samples, s.labels["mode"] ?? ""));
  const leases = has(samples, "headgate_lease_keys") ? leasesOf(samples) : undefined;
  if (sync.length === 0 && !leases && !has(samples, "headgate_fleet_nodes")) return undefined;
  const fleet: Fleet = {
    live: sum(samples, "headgate_fleet_nodes", { state: "live" }),
    known: sum(samples, "headgate_fleet_nodes", { state: "known" }),
  };
  if (sync.length > 0) fleet.sync = sync;
  if (leases) fleet.leases = leases;
  return fleet;
}

function syncOf(samples: Sample[], mode: string): Sync {
  const get = (name: string, labels: Record<string, string> = {}): number => sum(samples, "headgate_sync_" + name, { mode, ...labels });
  const updates = (kind: string): number => get("updates_total", { kind });
  const units = (kind: string): number => get("units_total", { kind });
  return {
    mode,
    up: get("up") === 1,
    lag_ms: get("lag_seconds", { stat: "mean" }) * 1000,
    lag_max_ms: get("lag_seconds", { stat: "max" }) * 1000,
    over: units("over"),
    over_max: get("over_max_units"),
    applied: units("applied"),
    lost: units("lost"),
    clock_ahead_ms: get("clock_ahead_seconds") * 1000,
    clocks_off: get("clocks_off"),
    keys: get("keys", { state: "remembered" }),
    waiting: get("keys", { state: "waiting" }),
    sent: updates("sent"),
    received: updates("received"),
    failed: updates("failed"),
    refused: updates("refused"),
  };
}

function leasesOf(samples: Sample[]): Leases {
  const units = (kind: string): number => sum(samples, "headgate_lease_units_total", { kind });
  return {
    keys: sum(samples, "headgate_lease_keys"),
    calls: sum(samples, "headgate_lease_calls_total"),
    failed: sum(samples, "headgate_lease_calls_total", { result: "failed" }),
    granted: units("granted"),
    returned: units("returned"),
    expired: units("expired"),
  };
}

/** A server of the store: its circuit, and the figures that there are of it. */
export interface Shard {
  name: string;
  circuit: "closed" | "open" | "half-open" | undefined;
  figures: { latency_ms?: number; calls?: number; errors?: number } & Record<string, number | undefined>;
}

const circuits = ["closed", "open", "half-open"] as const;

export function shardsOf(text: string): Shard[] {
  const samples = parse(text);
  const names = new Set(samples.flatMap((s) => (s.labels["shard"] === undefined ? [] : [s.labels["shard"]])));
  return [...names].sort().map((shard) => {
    const state = samples.find((s) => s.name === "headgate_breaker_state" && s.labels["shard"] === shard);
    const made: Shard = { name: shard, circuit: state && circuits[state.value], figures: {} };
    const calls = sum(samples, "headgate_store_seconds_count", { shard });
    if (calls > 0) made.figures = { calls, latency_ms: (1000 * sum(samples, "headgate_store_seconds_sum", { shard })) / calls };
    if (samples.some((s) => s.name === "headgate_store_errors_total" && s.labels["shard"] === shard)) made.figures.errors = sum(samples, "headgate_store_errors_total", { shard });
    return made;
  });
}
