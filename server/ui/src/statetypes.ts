// Types of the API about the state of nodes, stores and alerts.

/** Rules that are not enforced for a time: one, or all of a namespace or node. */
export interface Suspension {
  namespace?: string;
  rule?: string;
  /** node if only one node does not enforce them. */
  scope?: "fleet" | "node";
  /** That node, if the rules service says so. */
  node?: string;
  since: string;
  expires: string;
  note?: string;
  by: string;
}

/** The state of a node, from /readyz. */
export interface Status {
  state: "starting" | "ready" | "draining";
  degraded: boolean;
  enforcement_off?: Suspension[];
  /** Settings that are probably wrong. */
  warnings?: string[];
  version?: string;
  started?: string;
  /** The database of the rules service of this process. */
  database?: { name: string; writable: boolean; error?: string; todo?: string };
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
      unreachable?: string;
      disk?: string;
    };
  };
  store: {
    kind: string;
    /** A replaced shard is a server that is down while another one has taken its place. */
    shards?: { name?: string; up: boolean; since?: string; error?: string; replaced?: boolean }[];
    warnings?: string[];
  };
  fleet?: { live: number; known: number };
  identity?: { error?: string };
  /** Only with the built-in service. */
  demo_traffic?: "on" | "off";
  upstreams?: { route?: string; url: string; up: boolean; error?: string }[];
}

/** A condition that is or was met, of which webhooks were notified. */
export interface Alert {
  id: string;
  namespace?: string;
  condition: string;
  severity: "critical" | "warning";
  state: "pending" | "firing" | "resolving" | "resolved";
  subject: string;
  rules?: string[];
  nodes?: string[];
  summary: string;
  value: number;
  /** The URL or path of the page that says what to do. */
  runbook: string;
  since: string;
  fired?: string;
  resolved?: string;
}

/** How the nodes of a namespace decide while their store fails. */
export interface Fallback {
  namespace: string;
  /** Requests per second that pass without a limit. */
  unlimited_per_second: number;
  /** The rules that let them pass, at most 20, and the number of all. */
  open_rules: string[];
  open_rule_count: number;
  /** Rules with another on_failure. */
  other_rules?: string[];
  /** The nodes that let them pass, at most 20, and the number of all. */
  nodes: string[];
  node_count: number;
  live_nodes: number;
  since?: string;
  /** When the last request passed; undefined while there are some. */
  until?: string;
}

export interface Alerts {
  firing: number;
  alerts: Alert[];
  fallbacks?: Fallback[];
}

/** A Redis server as the nodes of the fleet see it. */
export interface FleetServer {
  /** The address of the primary that it is or replicates. */
  shard: string;
  server: string;
  role: "primary" | "replica";
  up: boolean;
  error?: string;
  down_since?: string;
  ping_ms: number;
  /** -1 if unknown. */
  cpu_cores: number;
  memory_bytes: number;
  memory_max_bytes: number;
  operations_per_second: number;
  evicted_keys: number;
  replication_lag_bytes: number;
  hot: boolean;
  /** The nodes that use it. */
  nodes?: string[];
  node_count?: number;
  /** Nodes whose circuit of the shard is open. */
  open_on?: string[];
}
