// Reads a node's own figures from /metrics, in the form of a heartbeat, for nodes without a rules service.

import type { Fleet, Leases, Sync } from "./api.ts";

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** The series that the console uses, of possibly thousands. */
const wanted = /^headgate_(requests_total|degraded_total|breaker_state|store(_shard)?_seconds_bucket|store_errors_total|redis_|sync_|lease_|fleet_nodes|build_info)/;

const label = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/g;

/** Parses the wanted series of the Prometheus text format. */
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

/** Decisions by verdict, and open circuits. Counted since the node started. */
export interface Decided {
  requests: number;
  denied: number;
  delayed: number;
  degraded: number;
  /** The servers of the store with an open circuit, and the number of servers. */
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

/** The fleet as the node sees it; undefined if it shares no limits. */
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
