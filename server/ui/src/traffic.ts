// Traffic statistics, as docs/traffic.md describes them.

import { call, Problem } from "./api.ts";

/** One number for each step, the oldest first. */
export interface Series {
  requests: number[];
  allowed: number[];
  denied: number[];
  delayed: number[];
  shadow_denied: number[];
  degraded: number[];
}

export interface RuleSeries extends Series {
  rule: string;
}

export interface Traffic {
  window: string;
  step: string;
  start: string;
  rules: RuleSeries[];
  more_rules?: number;
  total: Series;
}

/** The requests of one client under one rule. */
export interface ClientTraffic {
  client: Record<string, string>;
  rule: string;
  requests: number;
  allowed: number;
  denied: number;
  /** The true number of requests differs from requests by at most this. */
  error?: number;
  /** Stands for the counters of the client under the rule. */
  hash?: string;
  /** The rule is a shadow rule: denied requests passed. */
  shadow?: boolean;
  series?: ClientSeries;
}

/** The requests of one client over time, one number for each step. */
export interface ClientSeries {
  step: string;
  start: string;
  requests: number[];
  denied: number[];
}

export type VerdictName = "allow" | "delay" | "reject" | "drop" | "block" | "shadow";

/** The decision of a rule about one request. */
export interface Decision {
  time: string;
  node: string;
  client: Record<string, string>;
  rule: string;
  verdict: VerdictName;
  limit?: string;
  remaining: number;
  /** -1 is never. */
  retry_after_ms?: number;
  delay_ms?: number;
  cost: number;
  degraded?: boolean;
  /** The node recorded one of this many requests at that time. */
  one_in?: number;
}

export interface Decisions {
  decisions: Decision[];
  error?: string;
}

export type Order = "denied" | "requests";

export const windows: readonly [string, string][] = [
  ["10m", "10 minutes"],
  ["1h", "1 hour"],
  ["24h", "24 hours"],
  ["168h", "7 days"],
];

interface Query {
  namespace: string;
  window: string;
  rule?: string | undefined;
  signal?: AbortSignal;
}

interface TrafficQuery extends Query {
  /** Only these rules. The total is then of all. */
  rules?: readonly string[];
  /** The rules to return if there are more than most: by default those with the most requests. */
  order?: Order;
  /** The maximum number of rules. Default 100, or that of the given rules. */
  most?: number;
}

export function readTraffic({ namespace, window, rule, rules, order, most, signal }: TrafficQuery): Promise<Traffic> {
  return call<Traffic>("/v1/traffic", { query: { namespace, window, rule: rules ?? rule, order, limit: most?.toString() }, ...(signal ? { signal } : {}) });
}

/** The rules that deny most, without the requests that no rule limits. */
export function denying(traffic: Traffic, most: number): RuleSeries[] {
  return traffic.rules.filter((r) => r.rule !== noRule).toSorted((a, b) => total(b.denied) - total(a.denied) || total(b.shadow_denied) - total(a.shadow_denied)).slice(0, most);
}

/** Stands for requests that no rule limits. */
export const noRule = "(none)";

interface ClientsQuery extends Query {
  order: Order;
  limit: number;
  q?: string | undefined;
  /** Only the client with these attributes. */
  client?: Record<string, string> | undefined;
  series?: boolean;
}

export async function readClients({ namespace, window, rule, order, limit, q, client, series, signal }: ClientsQuery): Promise<ClientTraffic[]> {
  const query = { ...client, namespace, window, rule, order, limit: `${limit}`, q: q || undefined, series: series ? "true" : undefined };
  return (await call<{ clients: ClientTraffic[] | null }>("/v1/traffic/clients", { query, ...(signal ? { signal } : {}) })).clients ?? [];
}

interface DecisionsQuery {
  namespace: string;
  client: Record<string, string>;
  denied: boolean;
  limit: number;
  signal: AbortSignal;
}

export function readDecisions({ namespace, client, denied, limit, signal }: DecisionsQuery): Promise<Decisions> {
  return call<Decisions>("/v1/traffic/decisions", { query: { ...client, namespace, limit: `${limit}`, denied: denied ? "true" : undefined }, signal });
}

/** The requests of a client under a rule, for a chart. A last step in progress is left out, unless there is little before it. */
export function trafficOf({ shadow, series }: ClientTraffic, now: number): Traffic | undefined {
  if (!series) return undefined;
  const ends = Date.parse(series.start) + series.requests.length * seconds(series.step) * 1000;
  const complete = ends > now && series.requests.filter((n) => n > 0).length > 3 ? series.requests.length - 1 : series.requests.length;
  const requests = series.requests.slice(0, complete);
  const denied = series.denied.slice(0, complete);
  const none = requests.map(() => 0);
  return {
    window: "",
    step: series.step,
    start: series.start,
    rules: [],
    total: {
      requests,
      allowed: requests.map((n, i) => (shadow ? n : Math.max(0, n - (denied[i] ?? 0)))),
      denied: shadow ? none : denied,
      delayed: none,
      shadow_denied: shadow ? denied : none,
      degraded: none,
    },
  };
}

/** Reports whether an error means that the node keeps no statistics. */
export function isUnavailable(err: Error | undefined): boolean {
  return err instanceof Problem && (err.status === 404 || err.status === 501);
}

/** Returns the seconds of a duration such as 1s, 1m or 10m. */
export function seconds(duration: string): number {
  const units: Record<string, number> = { s: 1, m: 60, h: 3600 };
  let sum = 0;
  for (const [, n, unit] of duration.matchAll(/(\d+)([smh])/g)) sum += Number(n) * (units[unit ?? ""] ?? 0);
  return sum || 1;
}

export const total = (values: readonly number[]): number => values.reduce((sum, v) => sum + v, 0);

/** The mean rate per second over the latest 10 seconds, or the latest step if a step is longer. */
export function rateNow(values: readonly number[], step: number): number {
  const steps = Math.max(1, Math.floor(10 / step));
  const last = values.slice(-steps);
  return last.length === 0 ? 0 : total(last) / (last.length * step);
}

/** The share of requests that were denied, in percent; undefined without requests. */
export function deniedPercent(requests: number, denied: number): number | undefined {
  return requests === 0 ? undefined : (100 * denied) / requests;
}

/** The series in at most n points, each the sum of several steps: for small pictures. */
export function coarse(values: readonly number[], n: number): number[] {
  const size = Math.max(1, Math.ceil(values.length / n));
  const made: number[] = [];
  for (let i = values.length; i > 0; i -= size) made.unshift(total(values.slice(Math.max(0, i - size), i)));
  return made;
}

/** The kinds of attributes whose values may be secret. The rules service has the same list. */
const secret = new Set(["api_key", "bearer", "cookie", "header", "query"]);

export const isSecret = (name: string): boolean => secret.has(name.split(".")[0] ?? "");

/** The value of an attribute as pages show it: of a secret, only its first characters, as it may be seen by others or be in a picture. */
export function shownValue(name: string, value: string): string {
  if (!isSecret(name) || isHash(value)) return value;
  return value.length < 16 ? "…" : value.slice(0, 4) + "…";
}

/** A client in words: user=alice, or all clients where a rule has no key. */
export function clientName(client: Record<string, string>): string {
  const parts = Object.entries(client).map(([name, value]) => `${name}=${shownValue(name, value)}`);
  return parts.length === 0 ? "all clients together" : parts.join(", ");
}

/** Attributes whose values are secret: statistics have a hash of them, with which limits cannot be looked up. */
export function isShortened(client: Record<string, string>): boolean {
  return Object.values(client).some(isHash);
}

const isHash = (value: string): boolean => /…?#[0-9a-f]{8,}$/.test(value);
