// What the rules service says (control/api/openapi.json has it whole), and how it is asked.

export type Role = "viewer" | "editor" | "admin" | "node";

export interface WhoAmI {
  id: string;
  role: Role;
  namespaces: string[];
  expires?: string;
  /** Why nobody can change rules here, and why there can be no overrides. */
  read_only?: string;
  no_overrides?: string;
}

/** One way in which nodes or regions tell each other what they took. */
export interface News {
  mode: string;
  up: boolean;
  lag_ms: number;
  lag_max_ms: number;
  over: number;
  over_max: number;
  absorbed: number;
  lost: number;
  ahead_ms: number;
  dates_off: number;
  keys: number;
  waiting: number;
  told: number;
  heard: number;
  failed: number;
  refused: number;
}

/** Units that a node takes ahead of their use. All but keys are counted from its start. */
export interface Leases {
  keys: number;
  calls: number;
  failed: number;
  granted: number;
  returned: number;
  expired: number;
}

export interface Fleet {
  live: number;
  known: number;
  news?: News[];
  leases?: Leases;
}

export interface FleetNode {
  id: string;
  namespace: string;
  version: string;
  address?: string;
  region?: string;
  revision: number;
  lag_ms: number;
  from_disk?: boolean;
  error?: string;
  store: string;
  counters?: string;
  started: string;
  seen?: string;
  behind?: boolean;
  fleet?: Fleet;
}

export interface Nodes {
  nodes: FleetNode[];
  revision: number;
}

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Rule = { id: string } & { [name: string]: Json };

/** What is known of everything that is kept. */
export interface Stored {
  revision: number;
  created: string;
  updated: string;
  by: string;
  /** What may not be as it was meant, told when it is written. */
  warnings?: string[];
}

export interface RuleItem extends Stored {
  rule: Rule;
}

/** Other limits for one client, for a while. */
export type Override = {
  id: string;
  client: Record<string, string>;
  rule?: string;
  limits?: string[];
  unlimited?: boolean;
  block?: boolean;
  expires: string;
  note?: string;
};

export interface OverrideItem extends Stored {
  override: Override;
}

export interface OverridesPage {
  overrides: OverrideItem[];
  next?: string;
  total: number;
}

export interface RulesPage {
  rules: RuleItem[];
  next?: string;
  total: number;
  revision: number;
}

export interface Difference {
  kind: string;
  id: string;
  action: "create" | "update" | "delete";
  text?: string;
  before?: { [name: string]: Json };
  after?: { [name: string]: Json };
}

export interface Applied {
  diff: Difference[];
}

export interface Revision {
  revision: number;
  namespace: string;
  time: string;
  actor: string;
  from?: string;
  action: string;
  note?: string;
  count: number;
  changes?: Difference[];
  diff?: Difference[];
}

export interface RevisionsPage {
  revisions: Revision[];
  next?: string;
}

export interface AuditPage {
  audit: Revision[];
  next?: string;
  failed_logins?: { count: number; recent: FailedLogin[] };
}

export interface FailedLogin {
  time: string;
  from: string;
  /** The address had failed too often to be listened to. */
  denied?: boolean;
}

export interface Token {
  id: string;
  role: Role;
  namespaces: string[];
  description?: string;
  expires?: string;
  expired?: boolean;
  created: string;
  by: string;
}

export interface TokensPage {
  tokens: Token[];
  next?: string;
}

export interface LimitView {
  name: string;
  limit: string;
  allowed: boolean;
  capacity: number;
  remaining: number;
  retry_after_ms: number;
  reset_after_ms: number;
  delay_ms?: number;
}

/** What one rule says of a request, or of a client. */
export interface Explained {
  id: string;
  effect: string;
  denied?: boolean;
  mode: string;
  shadow?: boolean;
  shared?: boolean;
  penalized?: boolean;
  override?: number;
  client?: string;
  node?: string;
  region?: string;
  counters?: string;
  key: { attribute: string; value: string }[];
  cost: number;
  limits: LimitView[];
}

export interface Explanation {
  action: "allow" | "delay" | "reject" | "drop";
  reason?: string;
  status?: number;
  rule?: string;
  retry_after_ms: number;
  delay_ms: number;
  degraded?: boolean;
  rules: Explained[];
  error?: string;
}

export interface AskedNode {
  id: string;
  region?: string;
  state: "answered" | "shared" | "failed" | "silent";
  error?: string;
}

export interface Keys {
  keys: Explained[];
  more?: number;
  nodes: AskedNode[];
  error?: string;
}

/** Under which rules counters were forgotten. */
export interface Reset {
  reset: string[];
  nodes: AskedNode[];
  error?: string;
}

/** How a node is, as /readyz says it. */
export interface Status {
  state: "starting" | "ready" | "draining";
  degraded: boolean;
  version?: string;
  started?: string;
  rules: {
    source: string;
    revision: number;
    count: number;
    loaded?: string;
    error?: string;
    follow?: {
      namespace: string;
      clients: number;
      overrides: number;
      checked?: string;
      lag_ms: number;
      from_disk: boolean;
      push: boolean;
      away?: string;
      disk?: string;
    };
  };
  store: {
    kind: string;
    shards?: { name?: string; up: boolean; since?: string; error?: string }[];
    warnings?: string[];
  };
  fleet?: { live: number; known: number };
  identity?: { error?: string };
  upstreams?: { route?: string; url: string; up: boolean; error?: string }[];
}

export interface FieldError {
  path: string;
  value?: string;
  want: string;
  line?: number;
  column?: number;
}

/** What was wrong with a call, in words for people. A status of 0 means that nobody answered. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: FieldError[] = [],
    readonly diff: string = "",
    readonly current?: Stored & { rule?: Rule; override?: Override },
  ) {
    super(message);
  }
}

/** Calls a node that answers at all do so long before. */
const patience = 15_000;

/** The token is set by who signs in, and sent with every call of /v1/. */
let token = "";

export function setToken(value: string): void {
  token = value;
}

/** By how much the node's clock is ahead of this host's, in milliseconds. Times in answers are the node's, and a reader's clock may be minutes off. */
let ahead = 0;

/** Differences below this are those of the whole seconds in which answers have their date, and of the way. */
const sameTime = 3_000;

/** What time it is for the node that answers. */
export function clock(): number {
  return Date.now() + ahead;
}

/** Learns from the date of an answer that came just now. */
export function setClock(date: string | null, now: number): void {
  const at = date === null ? NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  if (Math.abs(at - (now + ahead)) > sameTime) ahead = at - now;
}

/** Called when a token that was good is so no more. */
let onRefused = (): void => {};

export function whenRefused(then: () => void): void {
  onRefused = then;
}

export interface Call {
  /** That the token is refused is said where the call was made, which holds something that must not be lost. */
  stay?: boolean;
  method?: string;
  query?: Record<string, string | undefined>;
  json?: unknown;
  yaml?: string;
  ifMatch?: number;
  signal?: AbortSignal;
}

export async function call<T>(path: string, options: Call = {}): Promise<T> {
  const answer = await send(path, options);
  if (answer.status === 401 && !options.stay) onRefused();
  if (!answer.ok) throw await problemOf(answer);
  try {
    return (await answer.json()) as T;
  } catch {
    throw new Problem(answer.status, `What ${path} answered is no JSON. Is there a proxy in between?`);
  }
}

async function send(path: string, { method = "GET", query = {}, json, yaml, ifMatch, signal }: Call): Promise<Response> {
  const headers: Record<string, string> = {};
  if (token !== "") headers["Authorization"] = `Bearer ${token}`;
  if (yaml !== undefined) headers["Content-Type"] = "application/yaml";
  if (json !== undefined) headers["Content-Type"] = "application/json";
  if (ifMatch !== undefined) headers["If-Match"] = `"${ifMatch}"`;
  const timeout = AbortSignal.timeout(patience);
  const init: RequestInit = {
    method,
    headers,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  };
  if (json !== undefined) init.body = JSON.stringify(json);
  if (yaml !== undefined) init.body = yaml;
  try {
    const answer = await fetch(path + queryOf(query), init);
    setClock(answer.headers.get("Date"), Date.now());
    return answer;
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Problem(0, timeout.aborted ? "The node has not answered for 15 seconds." : "The node does not answer.");
  }
}

function queryOf(query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return given.length === 0 ? "" : "?" + new URLSearchParams(given).toString();
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const p = (await answer.json()) as { detail?: string; title?: string; errors?: FieldError[]; diff?: string; current?: RuleItem };
    return new Problem(answer.status, p.detail ?? p.title ?? `It answered ${answer.status}.`, p.errors, p.diff, p.current);
  } catch {
    return new Problem(answer.status, `It answered ${answer.status} ${answer.statusText}`.trim() + ".");
  }
}

/** Asks /readyz, which answers 503 with the same body while a node should get no requests. */
export async function readStatus(signal: AbortSignal): Promise<Status> {
  const answer = await send("/readyz", { signal });
  if (answer.status !== 200 && answer.status !== 503) throw await problemOf(answer);
  return (await answer.json()) as Status;
}

export async function readMetrics(signal: AbortSignal): Promise<string> {
  const answer = await send("/metrics", { signal });
  if (!answer.ok) throw await problemOf(answer);
  return answer.text();
}

/** How a path is answered, 0 if it is not. */
export async function statusOf(path: string): Promise<number> {
  try {
    return (await send(path, { method: "HEAD" })).status;
  } catch {
    return 0;
  }
}

export function isAbort(err: unknown): boolean {
  return err instanceof DOMException && err.name === "AbortError";
}
