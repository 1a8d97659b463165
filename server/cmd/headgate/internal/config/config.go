package config

import (
	"net/netip"
	"time"

	"github.com/headgate/headgate/identity"
)

// A Config contains the settings of a node. The tags of a field are:
//
//	field    its name in the configuration file; after ",not", true in the file means false in the Go field
//	arg      the placeholder for its value in the help; only fields with this tag are flags and environment variables
//	default  its default value
//	doc      its description in docs/config.md and the JSON Schema; the first sentence is the help of the flag
type Config struct {
	Rules            string         `field:"rules" arg:"FILE" doc:"Rules file in YAML or JSON, watched for changes. It replaces the database. Default: none; rules come from the database or from control."`
	DB               string         `field:"db" arg:"DB" doc:"Database of the rules service: an SQLite file, or a postgres:// or redis:// URL. A new database contains demo rules if the gateway serves the built-in demo service, and no rules otherwise. Default: rules.db in data_dir."`
	DBFollows        string         `field:"db_follows" arg:"FILE" doc:"Rules file that the database follows, watched for changes. Use it for rules under version control. The API then rejects changes to rules and clients. Default: none."`
	Control          string         `field:"control" arg:"URL" doc:"URL of a remote rules service: the admin address of another headgate process. Default: none; the rules service runs in this process."`
	TokenFile        string         `field:"token_file" arg:"FILE" doc:"File with the token for the rules service at control. The token needs the role node. The file is read again when it changes."`
	DataDir          string         `field:"data_dir" arg:"DIR" doc:"Directory for the database, and for the last valid rules received from control. Default: $STATE_DIRECTORY, $XDG_STATE_HOME/headgate or ~/.local/state/headgate."`
	NodeID           string         `field:"node_id" arg:"ID" doc:"Name of this node in the rules service. Default: the host name and a hash of the listen addresses."`
	Upstream         string         `field:"upstream" arg:"URL" doc:"URL of the service to protect: http://host:port, https://, h2c://, h2:// or unix:/path. With gateway.routes, it receives the requests that match no route. Default: a built-in demo service, unless there are routes."`
	Store            string         `field:"store" arg:"STORE" default:"memory" doc:"Store for the counters: memory, or a redis://, rediss://, redis-cluster://, redis-sentinel:// or unix:// URL."`
	GlobalStore      string         `field:"global_store" arg:"STORE" doc:"Store shared by all regions, for rules with scope: global. It takes the same URLs as store. Default: none; rules with scope: global are rejected."`
	GatewayAddr      string         `field:"gateway_addr" arg:"ADDR" default:":8080" doc:"Listen address of the gateway: host:port, :port, unix:PATH, or off. Port 0 picks a free port. It cannot be combined with gateway.listeners."`
	APIAddr          string         `field:"api_addr" arg:"ADDR" default:"127.0.0.1:8081" doc:"Listen address of the decision service for HTTP with JSON and forward-auth: host:port, :port, unix:PATH, or off."`
	GRPCAddr         string         `field:"grpc_addr" arg:"ADDR" default:"127.0.0.1:8082" doc:"Listen address of the decision service for gRPC, including Envoy's protocol: host:port, :port, unix:PATH, or off."`
	RESPAddr         string         `field:"resp_addr" arg:"ADDR" default:"127.0.0.1:8083" doc:"Listen address of the decision service for Redis clients (CL.THROTTLE, HG.TAKE): host:port, :port, unix:PATH, or off."`
	AdminAddr        string         `field:"admin_addr" arg:"ADDR" default:"127.0.0.1:8084" doc:"Listen address of the console, the rules service (/v1/…), /metrics, /healthz and /readyz: host:port, :port, unix:PATH, or off."`
	GossipAddr       string         `field:"gossip_addr" arg:"ADDR" default:":8085" doc:"Listen address for gossip between nodes, over TCP and UDP: host:port, :port, or off. Rules with consistency: gossip need it. The listener is open only if gossip_addr, join or gossip_key_file is set."`
	Join             []string       `field:"join" arg:"HOST:PORT,..." doc:"Addresses of other gossip nodes, as host:port. A host name may resolve to several addresses. Headgate tries them until one responds."`
	GossipKeyFile    string         `field:"gossip_key_file" arg:"FILE" doc:"File with the gossip encryption key: 16, 24 or 32 bytes, raw or in base64. All nodes need the same key. Default: none; every host that can reach gossip_addr can take part."`
	TrustedProxies   []netip.Prefix `field:"trusted_proxies" arg:"CIDR,..." doc:"Networks of the proxies in front of this gateway. Forwarding headers are trusted only from them."`
	KeySecretFile    string         `field:"key_secret_file" arg:"FILE" doc:"File with a secret of 16 to 4096 bytes. It keys the hashes of clients in Redis, of tokens and of very long values, and signs leases. All nodes that share limits need the same secret. Default: a random secret, stored in Redis if the store is Redis."`
	SecondSecretFile string         `field:"second_key_secret_file" arg:"FILE" doc:"File with a second secret while key_secret_file is being replaced. Limits in Redis are counted under both secrets, and leases of both are accepted. See operate.md. Default: none."`
	APITokenFile     string         `field:"api_token_file" arg:"FILE" doc:"File with a token of at least 16 characters, required from callers of the decision service. Default: none; every host that can connect may call it."`
	AdminTokenFile   string         `field:"admin_token_file" arg:"FILE" doc:"File with a token of at least 16 characters that has all permissions in the rules service and may reset keys in the decision service. Default: none; a new database creates a token and prints it once."`
	EnvoyConfig      string         `field:"envoy_config" arg:"DIR" doc:"Directory with limits for Envoy in the format of envoyproxy/ratelimit, watched for changes. Default: none; Envoy requests are decided by the rules, with descriptor.<key> for the entries of a descriptor."`
	Namespace        string         `field:"namespace" arg:"NAME" doc:"Namespace of the rules that apply on this node. From a rules service, the default is the namespace default. From a file, rules without a namespace apply too."`
	Region           string         `field:"region" arg:"NAME" doc:"Region of this node. It is the value of the attribute region and the name of the region for rules with scope: global."`
	DemoTraffic      string         `field:"demo_traffic" arg:"on|off" doc:"Requests of made-up clients to the built-in service, so that the console has something to show: on or off. They are sent while the demo rules apply. Default: on with the built-in service, off with an upstream."`
	Traces           string         `field:"traces" arg:"URL" doc:"Receiver of OpenTelemetry traces: grpc://host:4317, http://host:4318, with TLS grpcs:// or https://, or off. Default: the value of OTEL_EXPORTER_OTLP_ENDPOINT, or off if it is not set. See traces.md."`
	TracesSample     string         `field:"traces_sample" arg:"RATIO" doc:"Share of the traces started by this node that are recorded: 0 to 1, such as 0.01. Requests with a traceparent header are recorded if the header says so. Default: the value of OTEL_TRACES_SAMPLER, or 1."`
	TracesParents    string         `field:"traces_parents" arg:"all|proxies|none" default:"all" doc:"Callers whose traces are continued: all, proxies or none. With proxies, the gateway continues traces of trusted_proxies only, so that other clients cannot have their requests recorded."`
	LogFormat        string         `field:"log_format" arg:"FORMAT" default:"auto" doc:"Format of the log on standard error: auto, json or text. auto is text on a terminal, otherwise JSON."`
	LogLevel         string         `field:"log_level" arg:"LEVEL" default:"info" doc:"Minimum level of log messages: debug, info, warn or error; a component can have its own, as in info,gateway=debug. The components are admin, fleet, gateway, rules, service and store."`

	// Sections without a flag.
	Identity     Identity     `field:"identity" doc:"How to identify clients."`
	Responses    Responses    `field:"responses" doc:"Response headers about limits."`
	Gateway      Gateway      `field:"gateway" doc:"Listeners, routes, timeouts and size limits of the gateway."`
	Service      Service      `field:"service" doc:"The decision service."`
	Memory       Memory       `field:"memory" doc:"The in-memory store. With Redis, it serves on_failure: local and consistency: local."`
	Redis        Redis        `field:"redis" doc:"The Redis store and its failure handling."`
	Fleet        Fleet        `field:"fleet" doc:"How nodes and regions share limits."`
	RulesService RulesService `field:"rules_service" doc:"The rules service in this process, or the connection to the one at control."`
	Admin        Admin        `field:"admin" doc:"The listener of admin_addr."`
	Traffic      Traffic      `field:"traffic" doc:"Statistics about requests and clients, see traffic.md."`

	origins  map[string]origin // origin of each setting that was set, by its name
	file     *file             // nil without a configuration file
	stateEnv map[string]string // the environment variables that name a directory for state
}

// Off is the address that turns a listener off.
const Off = "off"

// StoreMemory is the store in this process.
const StoreMemory = "memory"

// Identity configures how clients are identified. It has the defaults of identity.Config.
type Identity struct {
	TrustedProxies   []netip.Prefix        `field:"trusted_proxies" doc:"Alias of the top-level setting trusted_proxies."`
	Hops             int                   `field:"hops" default:"0" doc:"Number of proxies that every request passes, if their addresses are unknown. Clients must not be able to bypass the proxies."`
	ForwardingHeader string                `field:"forwarding_header" default:"X-Forwarded-For" doc:"Header in which proxies send the client address: X-Forwarded-For, Forwarded, or a header with a single address such as CF-Connecting-IP. Other forwarding headers are ignored."`
	IPv4Prefix       int                   `field:"ipv4_prefix" default:"32" doc:"Number of leading bits of an IPv4 address that identify a client."`
	IPv6Prefix       int                   `field:"ipv6_prefix" default:"64" doc:"Number of leading bits of an IPv6 address that identify a client."`
	APIKeyHeader     string                `field:"api_key_header" default:"X-API-Key" doc:"Header with the value of the attribute api_key."`
	APIKeyQuery      string                `field:"api_key_query" doc:"Query parameter that may contain the API key instead of the header."`
	UserFrom         []identity.UserSource `field:"user_from" default:"[token, header, basic_and_ip]" doc:"Sources of the attribute user, in order: token (the sub claim of a verified token), header (user_header, only from trusted proxies), basic_and_ip (the user name of Authorization: Basic together with the client address), basic (that user name alone; the password is not checked)."`
	UserHeader       string                `field:"user_header" default:"X-User-ID" doc:"Header in which a trusted proxy sends the user name. It is removed from requests of other senders."`
	JWT              *JWT                  `field:"jwt" doc:"Accepted bearer tokens, for jwt.<claim> and user. Set exactly one of jwks_url, jwks_file, secret_file and unverified."`
	Paths            Paths                 `field:"paths" doc:"Handling of ambiguous paths."`
	Repeated         identity.Repeated     `field:"repeated" default:"refuse" doc:"Value used if a cookie or query parameter is repeated with different values: first, last or refuse. With refuse, rules that use it as a key reject the request with 400, and conditions use the first value. Choose what the upstream does."`
	MaxCookies       Size                  `field:"max_cookies" default:"16KiB" doc:"Maximum size of the Cookie header. Larger headers are rejected with 400."`
	MaxQuery         Size                  `field:"max_query" default:"16KiB" doc:"Maximum size of the query. Longer queries are rejected with 400."`
	MaxPath          Size                  `field:"max_path" default:"8KiB" doc:"Maximum size of the path. Longer paths are rejected with 400."`
}

// JWT configures which tokens are accepted. Its fields have the same names and meanings as in jwt.Config.
type JWT struct {
	JWKSURL    string        `field:"jwks_url" doc:"URL of the issuer's key set. It must use https, unless it is on this host or allow_http is set."`
	JWKSFile   string        `field:"jwks_file" doc:"File with the issuer's key set. It is read again after every refresh interval."`
	SecretFile string        `field:"secret_file" doc:"File with the secret shared with the issuer, for HMAC. At least 32 bytes."`
	Unverified bool          `field:"unverified" default:"false" doc:"Accept tokens without verifying their signature. Use it only behind a proxy that verifies them. Unverified tokens do not set the attribute user."`
	Algorithms []string      `field:"algorithms" doc:"Allowed signature algorithms. Default: HS256 with a secret, otherwise all RS, PS, ES and EdDSA algorithms."`
	Issuer     string        `field:"issuer" doc:"Required issuer (iss). Default: any."`
	Audience   []string      `field:"audience" doc:"Accepted audiences: aud must contain one of them. Default: any."`
	Leeway     time.Duration `field:"leeway" default:"30s" doc:"Accepted clock skew. At most 5m."`
	NoExpiry   bool          `field:"no_expiry" default:"false" doc:"Accept tokens without an expiry time (exp)."`
	MaxToken   Size          `field:"max_token" default:"8KiB" doc:"Maximum size of a token. At most 64KiB."`
	Refresh    time.Duration `field:"refresh" default:"15m" doc:"Interval at which keys are read again. Default for a file: 10s."`
	MaxStale   time.Duration `field:"max_stale" default:"24h" doc:"How long old keys stay valid while new ones cannot be read."`
	AllowHTTP  bool          `field:"allow_http" default:"false" doc:"Allow an http jwks_url on another host. An attacker in that network can replace the keys."`
}

// Paths configures how paths are normalized. It has the fields of identity.PathRules.
type Paths struct {
	EncodedSlash      identity.EncodedSlash `field:"encoded_slash" default:"refuse" doc:"Handling of %2F, %5C and backslashes: refuse (reject with 400), keep (part of a segment) or decode (to a slash). Choose what the upstream does."`
	KeepDoubleSlashes bool                  `field:"keep_double_slashes" default:"false" doc:"Keep // in paths, for upstreams with empty path segments."`
	Parameters        identity.Parameters   `field:"parameters" default:"refuse" doc:"Handling of path parameters, a semicolon and the rest of its segment: refuse (reject with 400), keep (part of the segment) or cut (remove). Java servlet containers remove them, so that they read /admin;x as /admin; most other servers keep them."`
}

// Memory configures the store in this process. If the store is Redis, the store in this process decides only for rules
// with on_failure: local or consistency: local.
type Memory struct {
	MaxBytes Size `field:"max_bytes" default:"1GiB" doc:"Maximum memory for counters. At least 8MiB."`
}

// Redis configures the store in Redis and the guard in front of it.
type Redis struct {
	Prefix       string        `field:"prefix" default:"hg" doc:"Prefix of all Redis keys. Nodes with the same prefix and secret share their limits."`
	Deadline     time.Duration `field:"deadline" default:"20ms" doc:"Timeout of a decision in Redis. After it, the rule's on_failure policy applies."`
	DenyCache    DurationOrOff `field:"deny_cache" default:"1s" doc:"How long the deny cache remembers a denial. At most 1m, or off."`
	Nodes        int           `field:"nodes" doc:"Number of nodes that share the limits. While on_failure: local applies, each node enforces its share. Default: the number of live nodes, known from Redis or gossip."`
	ReadReplicas bool          `field:"read_replicas" default:"false" doc:"Read from replicas for peeks. Decisions always use the primary."`
}
