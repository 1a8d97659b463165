package config

import (
	"net/netip"
	"time"
)

// A Config is how a node is to run. The tag of a field is its name in the file.
type Config struct {
	// Rules is the file of the rules, empty for those of a rules service.
	Rules string `field:"rules" doc:"The rules file, YAML or JSON. It is watched, and is the truth: there is no database then. Default: none; the rules are those of the database, or of control."`
	// DB is where the rules service of this process keeps its rules, empty for a file in DataDir.
	DB string `field:"db" doc:"Where the rules service keeps rules: a file of SQLite, or a URL of postgres:// or redis://. Default: rules.db in data_dir. A new one gets demo rules if the gateway is in front of the built-in service, and no rules otherwise."`
	// DBFollows is a rules file that the database follows, empty if it is changed by its API.
	DBFollows string `field:"db_follows" doc:"A rules file that the database follows, for rules that are kept under version control: it is watched, and the API changes neither rules nor clients. Default: none."`
	// Control is where the rules service is whose node this is, empty if it is in this process.
	Control string `field:"control" doc:"Takes the rules of the rules service at this URL, the admin listener of another headgate. Default: none; the rules service is in this process."`
	// TokenFile is a file with the token that Control is shown.
	TokenFile string `field:"token_file" doc:"A file with the token that the rules service at control is shown, of the role node. It is read again when it changes."`
	// DataDir is where this process keeps what should outlive it.
	DataDir string `field:"data_dir" doc:"Where rules are kept: the database, or the last good rules of control. Default: $STATE_DIRECTORY, $XDG_STATE_HOME/headgate or ~/.local/state/headgate."`
	// NodeID is how the rules service knows this node, empty for a name by host and addresses.
	NodeID string `field:"node_id" doc:"How the rules service knows this node. Default: the name of the host, and what tells its nodes apart."`
	// Upstream is what gets the requests that no route of Gateway is for, empty for the demonstration's if there is no route.
	Upstream string `field:"upstream" doc:"The service to protect: http://host:port, https://, h2c://, h2:// or unix:/path. With gateway.routes, the one for what no route is for. Default: a built-in service for demonstration, if there is no route."`
	// Store is memory or a URL.
	Store string `field:"store" default:"memory" doc:"Where to count: memory, or a URL of redis://, rediss://, redis-cluster://, redis-sentinel:// or unix://."`
	// GlobalStore is a URL of what all regions share, empty if there is one region.
	GlobalStore string `field:"global_store" doc:"Where regions tell each other what they took, for rules with scope: global: a URL as store has it. Default: none; such rules are refused."`
	// GatewayAddr is where clients connect, if Gateway has no listeners. Off for nowhere.
	GatewayAddr string `field:"gateway_addr" default:":8080" doc:"Where clients connect: host:port, :port, unix: and a path, or off. Port 0 picks one. Not with gateway.listeners."`
	// APIAddr is where the decision service answers HTTP. Off for nowhere.
	APIAddr string `field:"api_addr" default:"127.0.0.1:8081" doc:"Where the decision service answers HTTP with JSON and forward-auth: host:port, :port, unix: and a path, or off."`
	// GRPCAddr is where it answers gRPC, that of Envoy too, and RESPAddr clients of Redis. Off for nowhere.
	GRPCAddr string `field:"grpc_addr" default:"127.0.0.1:8082" doc:"Where the decision service answers gRPC, its own and Envoy's: host:port, :port, unix: and a path, or off."`
	RESPAddr string `field:"resp_addr" default:"127.0.0.1:8083" doc:"Where the decision service answers clients of Redis (CL.THROTTLE, HG.TAKE): host:port, :port, unix: and a path, or off."`
	// AdminAddr is where operators connect. Off for nowhere.
	AdminAddr string `field:"admin_addr" default:"127.0.0.1:8084" doc:"Where the rules service is (/v1/…), /metrics, /healthz and /readyz: host:port, :port, unix: and a path, or off."`
	// GossipAddr is where nodes tell each other what they took, if they do: if it, Join or GossipKeyFile is given. Off for
	// nowhere.
	GossipAddr string `field:"gossip_addr" default:":8085" doc:"Where nodes tell each other what they took, over TCP and UDP, for rules with consistency: gossip: host:port, :port, or off. It is in use if this, join or gossip_key_file is given."`
	// Join are some of the other nodes.
	Join []string `field:"join" doc:"Some of the other nodes: host:port, or a name that stands for several, with :port. They are asked again until one answers."`
	// GossipKeyFile is a file with the key that gossip is encrypted with, empty for none.
	GossipKeyFile string `field:"gossip_key_file" doc:"A file with the key that gossip is encrypted with: 16, 24 or 32 bytes, or these in base64. All nodes need the same. Default: none; whoever reaches gossip_addr can take part."`
	// TrustedProxies are believed about the client's address.
	TrustedProxies []netip.Prefix `field:"trusted_proxies" doc:"Networks of the proxies before this gateway. What they say of the client's address is believed; what others say is not."`
	// KeySecretFile is a file with the secret of the fleet, empty for one by chance, or that of Redis.
	KeySecretFile string `field:"key_secret_file" doc:"A file with a secret of 16 to 4096 bytes. It keys the hashes that stand for clients in Redis, for tokens and for very long values, and seals leases. All nodes that share limits need the same. Default: one by chance; in Redis, one that is kept there."`
	// APITokenFile is a file with the token that the decision service asks for, empty for none.
	APITokenFile string `field:"api_token_file" doc:"A file with a token of at least 16 characters that callers of the decision service must show. Default: none; anybody who can connect may call."`
	// AdminTokenFile is a file with a token that may do everything, empty for none.
	AdminTokenFile string `field:"admin_token_file" doc:"A file with a token of at least 16 characters that may do everything at the rules service, and reset keys of the decision service. Default: none; a database that is new gets one, which is shown once."`
	// EnvoyConfig is a directory of limits for Envoys, empty if rules decide.
	EnvoyConfig string `field:"envoy_config" doc:"A directory with limits for Envoys, in the format of envoyproxy/ratelimit. It is watched. Default: none; the rules decide, with descriptor.<key> for what Envoys send."`
	// Namespace and Region are attributes that all requests have.
	Namespace string `field:"namespace" doc:"The service whose rules apply here: of the rules service those of this namespace, or of the namespace default; of a file those that have it or have none."`
	Region    string `field:"region" doc:"The value of the attribute region."`
	// LogFormat and LogLevel are as telemetry.NewLogger reads them.
	LogFormat string `field:"log_format" default:"json" doc:"How the log on standard error is written: json or text."`
	LogLevel  string `field:"log_level" default:"info" doc:"The least that is logged: debug, info, warn or error."`

	// What flags cannot say.
	Identity Identity `field:"identity" doc:"Who is asking."`
	Answers  Answers  `field:"answers" doc:"What clients are told."`
	Gateway  Gateway  `field:"gateway" doc:"Where clients connect, and who serves them."`
	Service  Service  `field:"service" doc:"The decision service."`
	Memory   Memory   `field:"memory" doc:"The store in this process. With Redis it is what decides by on_failure: local and consistency: local."`
	Redis    Redis    `field:"redis" doc:"The store in Redis and the guard before it."`
	Fleet    Fleet    `field:"fleet" doc:"How nodes and regions share limits."`
	// RulesService is how rules are kept and followed, Admin how operators connect.
	RulesService RulesService `field:"rules_service" doc:"The rules service: of this process, or the one at control."`
	Admin        Admin        `field:"admin" doc:"The listener of admin_addr."`

	// What was given where, for messages.
	origins map[string]origin
	file    *file
	// What the system says of where to keep things.
	environ map[string]string
}

// Off as an address turns a listener off.
const Off = "off"

// StoreMemory as a store counts in this process.
const StoreMemory = "memory"

// What holds unless told otherwise.
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

// Identity says who is asking. What is not given is as identity.Config has it.
type Identity struct {
	TrustedProxies   []netip.Prefix `field:"trusted_proxies" doc:"Another place for the setting trusted_proxies."` // another place for that of Config
	Hops             int            `field:"hops" default:"0" doc:"How many proxies each request passes, if their addresses are not known. Nobody must be able to reach this gateway without passing them."`
	ForwardingHeader string         `field:"forwarding_header" default:"X-Forwarded-For" doc:"Where proxies name their client: X-Forwarded-For, Forwarded, or a header with one address such as CF-Connecting-IP. Only this one is read."`
	IPv4Prefix       int            `field:"ipv4_prefix" default:"32" doc:"How many bits of an IPv4 address tell clients apart."`
	IPv6Prefix       int            `field:"ipv6_prefix" default:"64" doc:"How many bits of an IPv6 address tell clients apart."`
	APIKeyHeader     string         `field:"api_key_header" default:"X-API-Key" doc:"The header of the attribute api_key."`
	APIKeyQuery      string         `field:"api_key_query" doc:"The parameter of the query that may hold the api_key as well."`
	UserFrom         []UserSource   `field:"user_from" default:"[token, header, basic_and_ip]" doc:"Where to look for the attribute user, in this order: token (the sub of a verified token), header (user_header, from trusted proxies only), basic_and_ip (the user of Authorization: Basic, and the address of the client: alice from 192.0.2.1), basic (that user alone, with a right or a wrong password)."`
	UserHeader       string         `field:"user_header" default:"X-User-ID" doc:"The header in which a trusted proxy names the user. It is removed from the requests of others."`
	JWT              *JWT           `field:"jwt" doc:"Which bearer tokens are believed, for jwt.<claim> and user. One of jwks_url, jwks_file, secret_file and unverified is given."`
	Paths            Paths          `field:"paths" doc:"How paths are read, where services differ."`
	Repeated         Repeated       `field:"repeated" default:"refuse" doc:"Which value counts of a cookie or a parameter that is there several times: the first, the last, or none of them (refuse): then a request in which they differ is answered with 400 under rules that count by it, and conditions see the first. It must be what the service does."`
	MaxCookies       Size           `field:"max_cookies" default:"16KiB" doc:"How long the Cookie header may be. Longer ones are answered with 400."`
	MaxQuery         Size           `field:"max_query" default:"16KiB" doc:"How long the query may be. Longer ones are answered with 400."`
	MaxPath          Size           `field:"max_path" default:"8KiB" doc:"How long the path may be. Longer ones are answered with 400."`
}

// JWT says which tokens are believed, as jwt.Config does.
type JWT struct {
	JWKSURL    string        `field:"jwks_url" doc:"Where the issuer publishes its keys. https, unless it is this host or allow_http is set."`
	JWKSFile   string        `field:"jwks_file" doc:"A file with keys, which is read again every refresh."`
	SecretFile string        `field:"secret_file" doc:"A file with the secret that is shared with the issuer, for HMAC. At least 32 bytes."`
	Unverified bool          `field:"unverified" default:"false" doc:"Believe what tokens say without looking at their signature: only where they were verified before. They name no user then."`
	Algorithms []string      `field:"algorithms" doc:"Those that are allowed. Default: HS256 with a secret, else all with public keys: RS, PS, ES and EdDSA."`
	Issuer     string        `field:"issuer" doc:"What iss must be. Default: anything."`
	Audience   []string      `field:"audience" doc:"Of what aud must have one. Default: anything."`
	Leeway     time.Duration `field:"leeway" default:"30s" doc:"By how much clocks may differ, at most 5m."`
	NoExpiry   bool          `field:"no_expiry" default:"false" doc:"Let tokens pass that have no exp."`
	MaxToken   Size          `field:"max_token" default:"8KiB" doc:"The longest token, at most 64KiB."`
	Refresh    time.Duration `field:"refresh" default:"15m" doc:"How often keys are read. Default for a file: 10s."`
	MaxStale   time.Duration `field:"max_stale" default:"24h" doc:"How long keys are used when they cannot be read again."`
	AllowHTTP  bool          `field:"allow_http" default:"false" doc:"Let jwks_url be http on other hosts. Who can change what comes over that network chooses the keys."`
}

// Paths says how paths are read, as identity.PathRules does.
type Paths struct {
	EncodedSlash      EncodedSlash `field:"encoded_slash" default:"refuse" doc:"What becomes of %2F, %5C and backslashes: refuse them with 400, keep them as part of a name, or decode them to slashes. It must be what the service does."`
	KeepDoubleSlashes bool         `field:"keep_double_slashes" default:"false" doc:"Leave // as it is, for services that give a meaning to empty segments."`
	Parameters        Parameters   `field:"parameters" default:"refuse" doc:"What becomes of a semicolon in a segment and what follows it: refuse it with 400, keep it as part of a name, or cut it off. Java's servlet containers cut it off, so that /admin;x is /admin to them; almost all others keep it."`
}

// Memory is for the store in this process, and for what is counted here while Redis is away.
type Memory struct {
	MaxBytes Size `field:"max_bytes" default:"1GiB" doc:"The most memory that counters may take, at least 8MiB."`
}

// Redis is for a store in Redis and for the guard before it.
type Redis struct {
	Prefix       string        `field:"prefix" default:"hg" doc:"What all keys begin with. Nodes with the same prefix and secret share their limits."`
	Deadline     time.Duration `field:"deadline" default:"20ms" doc:"How long a decision of Redis may take before the rule's on_failure decides."`
	DenyCache    Span          `field:"deny_cache" default:"1s" doc:"How long a denial is remembered here at most, up to 1m, or off."`
	Nodes        int           `field:"nodes" doc:"How many nodes share the limits: each gets that share while on_failure: local decides. Default: as many as are heard of, in Redis or by gossip."`
	ReadReplicas bool          `field:"read_replicas" default:"false" doc:"Let replicas answer where nothing is taken."`
}
