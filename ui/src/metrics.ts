// A node's own figures from its /metrics, in the form that heartbeats have: what a node knows of itself without a rules service.

import type { Fleet, Leases, News } from "./api.ts";

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** What the console reads of the many series there are: those of rules and upstreams may be thousands. */
const wanted = /^headgate_(requests_total|degraded_total|breaker_state|news_|lease_|fleet_nodes|build_info)/;

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
  const news = samples.filter((s) => s.name === "headgate_news_up").map((s) => newsOf(samples, s.labels["mode"] ?? ""));
  const leases = has(samples, "headgate_lease_keys") ? leasesOf(samples) : undefined;
  if (news.length === 0 && !leases && !has(samples, "headgate_fleet_nodes")) return undefined;
  const fleet: Fleet = {
    live: sum(samples, "headgate_fleet_nodes", { state: "live" }),
    known: sum(samples, "headgate_fleet_nodes", { state: "known" }),
  };
  if (news.length > 0) fleet.news = news;
  if (leases) fleet.leases = leases;
  return fleet;
}

function newsOf(samples: Sample[], mode: string): News {
  const get = (name: string, labels: Record<string, string> = {}): number => sum(samples, "headgate_news_" + name, { mode, ...labels });
  const total = (what: string): number => get("total", { what });
  const units = (what: string): number => get("units_total", { what });
  return {
    mode,
    up: get("up") === 1,
    lag_ms: get("lag_seconds", { of: "mean" }) * 1000,
    lag_max_ms: get("lag_seconds", { of: "most" }) * 1000,
    over: units("over"),
    over_max: get("over_most_units"),
    absorbed: units("absorbed"),
    lost: units("lost"),
    ahead_ms: get("date_ahead_seconds") * 1000,
    dates_off: get("dates_off"),
    keys: get("keys", { state: "remembered" }),
    waiting: get("keys", { state: "waiting" }),
    told: total("told"),
    heard: total("heard"),
    failed: total("failed"),
    refused: total("refused"),
  };
}

function leasesOf(samples: Sample[]): Leases {
  const units = (what: string): number => sum(samples, "headgate_lease_units_total", { what });
  return {
    keys: sum(samples, "headgate_lease_keys"),
    calls: sum(samples, "headgate_lease_calls_total"),
    failed: sum(samples, "headgate_lease_calls_total", { result: "failed" }),
    granted: units("granted"),
    returned: units("returned"),
    expired: units("expired"),
  };
}
