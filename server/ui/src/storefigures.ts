// Figures of the servers that hold the counters, from /metrics: rates between two readings.

import { grown } from "./figures.ts";
import { parse, type Sample } from "./metrics.ts";

export type Circuit = "closed" | "open" | "half-open";

/** A server of the store. Figures that the node does not have are undefined. */
export interface StoreServer {
  name: string;
  role: string | undefined;
  up: boolean | undefined;
  circuit: Circuit | undefined;
  /** 0 without a cluster, and for replicas. */
  slots: number | undefined;
  /** Cores in use: 0.5 is half a core. */
  cpu: number | undefined;
  memory: number | undefined;
  /** 0 if there is no maximum. */
  memoryMax: number | undefined;
  /** Bytes per second, since the previous reading. */
  received: number | undefined;
  sent: number | undefined;
  operations: number | undefined;
  /** Milliseconds. */
  ping: number | undefined;
  /** Milliseconds that 99 % of the node's calls took at most, since the previous reading. */
  p99: number | undefined;
  /** Bytes that a replica is behind. */
  lag: number | undefined;
  evicted: number | undefined;
  unanswered: number | undefined;
  /** Operations per second of the last readings, the oldest first. */
  history: readonly number[];
}

/** Calls of the node to its store, since the previous reading. */
export interface StoreCalls {
  perSecond: number;
  errorsPerSecond: number;
  /** Milliseconds that half and 99 % of the calls took at most; undefined without calls. */
  median: number | undefined;
  p99: number | undefined;
}

export interface StoreFigures {
  servers: StoreServer[];
  /** Undefined after the first reading. */
  calls: StoreCalls | undefined;
}

interface Reading {
  at: number;
  values: Map<string, number>;
  /** Of all calls under "", and of those to each shard. */
  buckets: Map<string, Buckets>;
}

/** The cumulative counts of calls by the upper bound of their duration in seconds. */
type Buckets = Map<number, number>;

/** How many readings the sparklines show. */
const historyLength = 60;

/** A counter that has not changed for this long, in milliseconds, stands still. */
const idleAfter = 30_000;

const circuits = ["closed", "open", "half-open"] as const;

/** Keeps the previous reading, for rates, and a short history per server. */
export class StoreTrack {
  private last: Reading | undefined;
  private readonly history = new Map<string, number[]>();
  private readonly changed = new Map<string, { value: number; at: number; rate: number | undefined }>();

  /** Adds the text of /metrics, read at a time in milliseconds. */
  update(text: string, at: number): StoreFigures {
    const samples = parse(text);
    const reading: Reading = { at, values: new Map(), buckets: bucketsOf(samples) };
    for (const s of samples) if (s.name.endsWith("_total")) add(reading.values, seriesName(s), s.value);
    const before = this.last;
    this.last = reading;
    const names = new Set(samples.flatMap((s) => [s.labels["server"], s.labels["shard"]].filter((n) => n !== undefined)));
    for (const name of this.history.keys()) if (!names.has(name)) this.history.delete(name);
    for (const series of this.changed.keys()) if (!reading.values.has(series)) this.changed.delete(series);
    return { servers: [...names].sort().map((name) => this.server(name, samples, at, before && latencyBetween(before, reading, name)?.within(0.99))), calls: before && callsBetween(before, reading) };
  }

  /** Returns the rate of a counter that the node reads from the server only every few seconds: from change to change. */
  private network(series: string, value: number, at: number): number | undefined {
    const last = this.changed.get(series);
    if (!last) this.changed.set(series, { value, at, rate: undefined });
    else if (value !== last.value) this.changed.set(series, { value, at, rate: (grown(last.value, value) * 1000) / Math.max(1, at - last.at) });
    else if (at - last.at > idleAfter) return 0;
    return this.changed.get(series)?.rate;
  }

  private server(name: string, samples: readonly Sample[], at: number, p99: number | undefined): StoreServer {
    const own = samples.filter((s) => s.labels["server"] === name);
    const get = (metric: string): number | undefined => own.find((s) => s.name === "headgate_redis_" + metric)?.value;
    const bytesPerSecond = (direction: string): number | undefined => {
      const series = own.find((s) => s.name === "headgate_redis_network_bytes_total" && s.labels["direction"] === direction);
      return series && this.network(seriesName(series), series.value, at);
    };
    const state = samples.find((s) => s.name === "headgate_breaker_state" && s.labels["shard"] === name);
    const [up, ping, operations] = [get("up"), get("ping_seconds"), get("operations_per_second")];
    const history = [...(this.history.get(name) ?? []), operations ?? 0].slice(-historyLength);
    this.history.set(name, history);
    return {
      name,
      role: own[0]?.labels["role"],
      up: up === undefined ? undefined : up === 1,
      circuit: state && circuits[state.value],
      slots: get("slots"),
      cpu: get("cpu_cores"),
      memory: get("memory_bytes"),
      memoryMax: get("memory_max_bytes"),
      received: bytesPerSecond("in"),
      sent: bytesPerSecond("out"),
      operations,
      ping: ping === undefined ? undefined : 1000 * ping,
      p99,
      lag: get("replication_lag_bytes"),
      evicted: get("evicted_keys_total"),
      unanswered: get("unanswered_total"),
      history,
    };
  }
}

function seriesName({ name, labels }: Sample): string {
  return name === "headgate_redis_network_bytes_total" ? JSON.stringify([name, labels["server"], labels["direction"]]) : name;
}

function add<K>(to: Map<K, number>, key: K, value: number): void {
  to.set(key, (to.get(key) ?? 0) + value);
}

/** The durations of calls over all operations, and by shard. */
function bucketsOf(samples: readonly Sample[]): Map<string, Buckets> {
  const buckets = new Map<string, Buckets>([["", new Map()]]);
  for (const s of samples) {
    const shard = s.name === "headgate_store_seconds_bucket" ? "" : s.name === "headgate_store_shard_seconds_bucket" ? s.labels["shard"] : undefined;
    if (shard === undefined) continue;
    const of = buckets.get(shard) ?? new Map<number, number>();
    buckets.set(shard, of);
    add(of, s.labels["le"] === "+Inf" ? Infinity : Number(s.labels["le"]), s.value);
  }
  return buckets;
}

/** The number of calls between two readings, and the milliseconds that a share of them took at most. */
function latencyBetween(before: Reading, after: Reading, shard: string): { all: number; within: (share: number) => number | undefined } | undefined {
  const [old, now] = [before.buckets.get(shard), after.buckets.get(shard)];
  if (!now) return undefined;
  const bounds = [...now.keys()].sort((a, b) => a - b);
  const counts = bounds.map((bound) => grown(old?.get(bound) ?? 0, now.get(bound) ?? 0));
  const all = counts[counts.length - 1] ?? 0;
  const within = (share: number): number | undefined => {
    const bound = all === 0 ? undefined : bounds[counts.findIndex((n) => n >= share * all)];
    return bound === undefined ? undefined : 1000 * bound;
  };
  return { all, within };
}

function callsBetween(before: Reading, after: Reading): StoreCalls {
  const calls = latencyBetween(before, after, "");
  const seconds = Math.max(1, after.at - before.at) / 1000;
  const errors = grown(before.values.get("headgate_store_errors_total") ?? 0, after.values.get("headgate_store_errors_total") ?? 0);
  return { perSecond: (calls?.all ?? 0) / seconds, errorsPerSecond: errors / seconds, median: calls?.within(0.5), p99: calls?.within(0.99) };
}
