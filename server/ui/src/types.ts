// Types of the API. See control/api/openapi.json.

import type { Suspension } from "./statetypes.ts";

export type Role = "viewer" | "editor" | "admin" | "node";

export interface WhoAmI {
  id: string;
  role: Role;
  namespaces: string[];
  expires?: string;
  /** Why rules cannot be changed here, and why overrides are not possible. */
  read_only?: string;
  no_overrides?: string;
}

/** One way in which nodes or regions share counters. */
export interface Sync {
  mode: string;
  up: boolean;
  lag_ms: number;
  lag_max_ms: number;
  over: number;
  over_max: number;
  applied: number;
  lost: number;
  clock_ahead_ms: number;
  clocks_off: number;
  keys: number;
  waiting: number;
  sent: number;
  received: number;
  failed: number;
  refused: number;
}

/** Units that a node has taken in advance. All but keys are counted since it started. */
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
  sync?: Sync[];
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
  /** When its store became unreachable. */
  store_since?: string;
  /** Rules that it does not enforce for a time, by switches made on the node itself. */
  enforcement_off?: Suspension[];
  counters?: string;
  started: string;
  seen?: string;
  behind?: boolean;
  fleet?: Fleet;
  health?: {
    /** Rules under which requests pass without a limit, because calls of the store fail. */
    failing_open?: { rule: string }[];
    unlimited_since?: string;
    /** When the last of them passed; undefined while there are some. */
    unlimited_until?: string;
  };
}

export interface Nodes {
  nodes: FleetNode[];
  revision: number;
}

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Rule = { id: string } & { [name: string]: Json };

/** Fields of all stored objects. */
export interface Stored {
  revision: number;
  created: string;
  updated: string;
  by: string;
  /** Possible mistakes, in the response to a change. */
  warnings?: string[];
}

export interface RuleItem extends Stored {
  rule: Rule;
}

/** Other limits for one client, for a limited time. */
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

/** A client that has limits of its own, or properties that rules match. */
export type RegisteredClient = {
  id: string;
  attributes?: Record<string, string | string[]>;
  limits?: Json[];
  unlimited?: boolean;
  block?: boolean;
} & { [name: string]: Json | undefined };

export interface ClientItem extends Stored {
  client: RegisteredClient;
}

export interface ClientsPage {
  clients: ClientItem[];
  next?: string;
  total: number;
}

/** The result of an import. */
export interface Imported {
  clients: number;
  created: number;
  updated: number;
  unchanged: number;
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
  /** The address has failed too often and is blocked for a time. */
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
  /** Null while the store is unreachable. */
  remaining: number | null;
  retry_after_ms: number;
  reset_after_ms: number | null;
  delay_ms?: number;
}

/** The decision of one rule about a request or client. */
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
  /** Headers of the request that no rule uses. */
  unused_headers?: string[];
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

/** The rules under which counters were reset. */
export interface Reset {
  reset: string[];
  nodes: AskedNode[];
  error?: string;
}

export interface FieldError {
  path: string;
  value?: string;
  want: string;
  line?: number;
  column?: number;
}

/** A URL that receives a request after each change of rules. */
export interface Webhook {
  id: string;
  url: string;
  description?: string;
  /** The kinds of events that it receives: revision, alert or both; revision if there are none. */
  events?: string[];
  created: string;
  by: string;
}

export interface WebhooksPage {
  webhooks: Webhook[];
  next?: string;
}

export interface Delivery {
  revision: number;
  /** The event of a delivery about an alert, such as alert.fired; number identifies it instead of the revision. */
  event?: string;
  number?: number;
  alert?: { id: string };
  state: "pending" | "delivered" | "dead";
  attempts: number;
  last?: string;
  status?: number;
  error?: string;
}

/** A figure, with the interval that contains the truth with a probability of 95 % if it is from a sample. */
export interface Estimate {
  value: number;
  low: number;
  high: number;
}

/** The outcome at one value of a limit. */
export interface WhatIfPoint {
  limit: string;
  count: number;
  denied: Estimate;
  affected: Estimate;
  /** The share of the clients without a denied request, 0 to 1. */
  unaffected: number;
}

/** What other limits would have done to the requests of the last hours. */
export interface WhatIf {
  window: string;
  /** The time in which the replayed requests were sampled. It is shorter than the window if nodes have no older samples. */
  from: string;
  to: string;
  limits: string[];
  /** 1 if the requests of all clients are known. */
  sampled_one_in: number;
  clients: Estimate;
  requests: Estimate;
  denied: Estimate;
  affected: Estimate;
  current?: { limits: string[]; denied: Estimate; affected: Estimate };
  top: { client: Record<string, string>; requests: number; denied: number }[];
  curve: WhatIfPoint[];
  curve_limit: number;
  unaffected_99?: WhatIfPoint;
  notes?: string[];
  partial?: boolean;
  error?: string;
}
