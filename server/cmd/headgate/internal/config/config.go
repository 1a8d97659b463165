package config

import (
	"net/netip"
	"time"
)

// A Config has the settings of a node. The tag "field" of a field is its name in the file, and "doc" its description in
// the docs and the schema.
type Config struct {
	Rules          string         `field:"rules" doc:"The rules file, YAML or JSON. It is watched, and replaces the database. Default: none; rules come from the database, or from control."`
	DB             string         `field:"db" doc:"The database of the rules service: an SQLite file, or a postgres:// or redis:// URL. Default: rules.db in data_dir. A new database gets demo rules if the gateway is in front of the built-in service, and no rules otherwise."`
	DBFollows      string         `field:"db_follows" doc:"A rules file that the database follows, for rules under version control: it is watched, and the API refuses changes of rules and clients. Default: none."`
	Control        string         `field:"control" doc:"The URL of a rules service, the admin listener of another headgate: its rules are used. Default: none; the rules service is in this process."`
	TokenFile      string         `field:"token_file" doc:"A file with the token for the rules service at control, of the role node. It is read again when it changes."`
	DataDir        string         `field:"data_dir" doc:"The directory of the database, or of the last good rules of control. Default: $STATE_DIRECTORY, $XDG_STATE_HOME/headgate or ~/.local/state/headgate."`
	NodeID         string         `field:"node_id" doc:"The name of this node at the rules service. Default: the host name and the addresses of its listeners."`
	Upstream       string         `field:"upstream" doc:"The service to protect: http://host:port, https://, h2c://, h2:// or unix:/path. With gateway.routes, it gets the requests that match no route. Default: a built-in demo service, if there is no route."`
	Store          string         `field:"store" default:"memory" doc:"Where counters are kept: memory, or a URL with redis://, rediss://, redis-cluster://, redis-sentinel:// or unix://."`
	GlobalStore    string         `field:"global_store" doc:"The store through which regions share limits, for rules with scope: global: a URL as for store. Default: none; such rules are refused."`
	GatewayAddr    string         `field:"gateway_addr" default:":8080" doc:"The address of the gateway: host:port, :port, unix: and a path, or off. Port 0 picks a free one. Not with gateway.listeners."`
	APIAddr        string         `field:"api_addr" default:"127.0.0.1:8081" doc:"The address of the decision service for HTTP, JSON and forward-auth: host:port, :port, unix: and a path, or off."`
	GRPCAddr       string         `field:"grpc_addr" default:"127.0.0.1:8082" doc:"The address of the decision service for gRPC, its own and Envoy's protocol: host:port, :port, unix: and a path, or off."`
	RESPAddr       string         `field:"resp_addr" default:"127.0.0.1:8083" doc:"The address of the decision service for Redis clients (CL.THROTTLE, HG.TAKE): host:port, :port, unix: and a path, or off."`
	AdminAddr      string         `field:"admin_addr" default:"127.0.0.1:8084" doc:"The address of the console, the rules service (/v1/…), /metrics, /healthz and /readyz: host:port, :port, unix: and a path, or off."`
	GossipAddr     string         `field:"gossip_addr" default:":8085" doc:"The address for gossip between nodes, over TCP and UDP, for rules with consistency: gossip: host:port, :port, or off. It is open if this, join or gossip_key_file is set."`
	Join           []string       `field:"join" doc:"Some other nodes: host:port, or a name with several addresses and :port. They are tried until one responds."`
	GossipKeyFile  string         `field:"gossip_key_file" doc:"A file with the key that encrypts gossip: 16, 24 or 32 bytes, or these in base64. All nodes need the same one. Default: none; any host that reaches gossip_addr can take part."`
	TrustedProxies []netip.Prefix `field:"trusted_proxies" doc:"Networks of the proxies in front of this gateway. Only their forwarding headers are trusted."`
	KeySecretFile  string         `field:"key_secret_file" doc:"A file with a secret of 16 to 4096 bytes. It keys the hashes of clients in Redis, of tokens and of very long values, and protects leases. All nodes that share limits need the same one. Default: a random one; with Redis, one that is stored there."`
	APITokenFile   string         `field:"api_token_file" doc:"A file with a token of at least 16 characters for callers of the decision service. Default: none; every host that can connect may call."`
	AdminTokenFile string         `field:"admin_token_file" doc:"A file with a token of at least 16 characters that has all permissions at the rules service, and may reset keys of the decision service. Default: none; a new database gets one, which is shown once."`
	EnvoyConfig    string         `field:"envoy_config" doc:"A directory with limits for Envoy, in the format of envoyproxy/ratelimit. It is watched. Default: none; the rules decide, with descriptor.<key> for Envoy's entries."`
	Namespace      string         `field:"namespace" doc:"The namespace whose rules apply here: from the rules service those of this namespace, by default of the namespace default; from a file those with this namespace or none."`
	Region         string         `field:"region" doc:"The value of the attribute region."`
	LogFormat      string         `field:"log_format" default:"json" doc:"Format of the log on standard error: json or text."`
	LogLevel       string         `field:"log_level" default:"info" doc:"The lowest level that is logged: debug, info, warn or error."`

	// Sections without a flag.
	Identity     Identity     `field:"identity" doc:"How clients are identified."`
	Answers      Answers      `field:"answers" doc:"Headers of responses."`
	Gateway      Gateway      `field:"gateway" doc:"Listeners, routes and bounds of the gateway."`
	Service      Service      `field:"service" doc:"The decision service."`
	Memory       Memory       `field:"memory" doc:"The store in this process. With Redis it is used for on_failure: local and consistency: local."`
	Redis        Redis        `field:"redis" doc:"The Redis store and the guard in front of it."`
	Fleet        Fleet        `field:"fleet" doc:"How nodes and regions share limits."`
	RulesService RulesService `field:"rules_service" doc:"The rules service in this process, or at control."`
	Admin        Admin        `field:"admin" doc:"The listener of admin_addr."`

	origins map[string]origin // where each setting was set, by its name
	file    *file
	environ map[string]string // the variables that name a directory for state
}

// Off as an address turns a listener off.
const Off = "off"

// StoreMemory is the store in this process.
const StoreMemory = "memory"

// The defaults.
const (
	DefaultGatewayAddr = ":8080"
	DefaultAPIAddr     = "127.0.0.1:8081"
	DefaultGRPCAddr    = "127.0.0.1:8082"
	DefaultRESPAddr    = "127.0.0.1:8083"
	DefaultAdminAddr   = "127.0.0.1:8084"
	DefaultGossipAddr  = ":8085"
	DefaultLogFormat   = "json"
	DefaultLogLevel    = "info"
)

func defaults() Config {
	return Config{
		Store:       StoreMemory,
		GatewayAddr: DefaultGatewayAddr,
		APIAddr:     DefaultAPIAddr,
		GRPCAddr:    DefaultGRPCAddr,
		RESPAddr:    DefaultRESPAddr,
		AdminAddr:   DefaultAdminAddr,
		GossipAddr:  DefaultGossipAddr,
		LogFormat:   DefaultLogFormat,
		LogLevel:    DefaultLogLevel,
	}
}

// Identity configures how clients are identified. Defaults are those of identity.Config.
type Identity struct {
	// an alias of Config.TrustedProxies
	TrustedProxies   []netip.Prefix `field:"trusted_proxies" doc:"The same as the setting trusted_proxies."`
	Hops             int            `field:"hops" default:"0" doc:"How many proxies each request passes, if their addresses are not known. No client may be able to bypass them."`
	ForwardingHeader string         `field:"forwarding_header" default:"X-Forwarded-For" doc:"The header in which proxies name their client: X-Forwarded-For, Forwarded, or a header with one address such as CF-Connecting-IP. Only this one is read."`
	IPv4Prefix       int            `field:"ipv4_prefix" default:"32" doc:"How many bits of an IPv4 address identify a client."`
	IPv6Prefix       int            `field:"ipv6_prefix" default:"64" doc:"How many bits of an IPv6 address identify a client."`
	APIKeyHeader     string         `field:"api_key_header" default:"X-API-Key" doc:"The header of the attribute api_key."`
	APIKeyQuery      string         `field:"api_key_query" doc:"A query parameter that may hold the api_key as well."`
	UserFrom         []UserSource   `field:"user_from" default:"[token, header, basic_and_ip]" doc:"The sources of the attribute user, in this order: token (the sub of a verified token), header (user_header, from trusted proxies only), basic_and_ip (the user of Authorization: Basic, and the address of the client: alice from 192.0.2.1), basic (that user alone, with a right or a wrong password)."`
	UserHeader       string         `field:"user_header" default:"X-User-ID" doc:"The header in which a trusted proxy names the user. It is removed from the requests of others."`
	JWT              *JWT           `field:"jwt" doc:"Which bearer tokens are accepted, for jwt.<claim> and user. Exactly one of jwks_url, jwks_file, secret_file and unverified is set."`
	Paths            Paths          `field:"paths" doc:"How ambiguous paths are read."`
	Repeated         Repeated       `field:"repeated" default:"refuse" doc:"Which value of a repeated cookie or parameter counts: first, last, or none (refuse): then rules that count by it refuse a request with different values with 400, and conditions see the first. Set it to what the service does."`
	MaxCookies       Size           `field:"max_cookies" default:"16KiB" doc:"The longest Cookie header. Longer ones get 400."`
	MaxQuery         Size           `field:"max_query" default:"16KiB" doc:"The longest query. Longer ones get 400."`
	MaxPath          Size           `field:"max_path" default:"8KiB" doc:"The longest path. Longer ones get 400."`
}

// JWT configures which tokens are accepted, as jwt.Config does.
type JWT struct {
	JWKSURL    string        `field:"jwks_url" doc:"The URL of the issuer's keys. https, unless it is this host or allow_http is set."`
	JWKSFile   string        `field:"jwks_file" doc:"A file with keys, read again at every refresh."`
	SecretFile string        `field:"secret_file" doc:"A file with the secret shared with the issuer, for HMAC. At least 32 bytes."`
	Unverified bool          `field:"unverified" default:"false" doc:"Accept tokens without checking their signature: only where they were verified before. They name no user then."`
	Algorithms []string      `field:"algorithms" doc:"The allowed algorithms. Default: HS256 with a secret, else all with public keys: RS, PS, ES and EdDSA."`
	Issuer     string        `field:"issuer" doc:"The required iss. Default: any."`
	Audience   []string      `field:"audience" doc:"Values of which aud must contain one. Default: any."`
	Leeway     time.Duration `field:"leeway" default:"30s" doc:"The accepted clock skew, at most 5m."`
	NoExpiry   bool          `field:"no_expiry" default:"false" doc:"Accept tokens without exp."`
	MaxToken   Size          `field:"max_token" default:"8KiB" doc:"The longest token, at most 64KiB."`
	Refresh    time.Duration `field:"refresh" default:"15m" doc:"How often keys are read. Default for a file: 10s."`
	MaxStale   time.Duration `field:"max_stale" default:"24h" doc:"How long keys are used if they cannot be read again."`
	AllowHTTP  bool          `field:"allow_http" default:"false" doc:"Allow http in jwks_url for other hosts. An attacker on that network can replace the keys."`
}

// Paths configures how paths are normalized, as identity.PathRules does.
type Paths struct {
	EncodedSlash      EncodedSlash `field:"encoded_slash" default:"refuse" doc:"How %2F, %5C and backslashes are read: refuse them with 400, keep them as part of a name, or decode them to slashes. Set it to what the service does."`
	KeepDoubleSlashes bool         `field:"keep_double_slashes" default:"false" doc:"Keep //, for services with empty segments."`
	Parameters        Parameters   `field:"parameters" default:"refuse" doc:"How a semicolon and the rest of its segment are read: refuse it with 400, keep it as part of a name, or cut it off. Java servlet containers cut it off, so that /admin;x is /admin to them; almost all others keep it."`
}

// Memory configures the store in this process, which also decides while Redis is unreachable.
type Memory struct {
	MaxBytes Size `field:"max_bytes" default:"1GiB" doc:"The most memory for counters, at least 8MiB."`
}

// Redis configures the store in Redis and the guard in front of it.
type Redis struct {
	Prefix       string        `field:"prefix" default:"hg" doc:"The prefix of all keys. Nodes with the same prefix and secret share their limits."`
	Deadline     time.Duration `field:"deadline" default:"20ms" doc:"How long a Redis decision may take before the rule's on_failure decides."`
	DenyCache    Span          `field:"deny_cache" default:"1s" doc:"How long the deny cache remembers a denial, up to 1m, or off."`
	Nodes        int           `field:"nodes" doc:"How many nodes share the limits: each gets that share while on_failure: local decides. Default: the live nodes, known from Redis or gossip."`
	ReadReplicas bool          `field:"read_replicas" default:"false" doc:"Let replicas answer peeks."`
}
