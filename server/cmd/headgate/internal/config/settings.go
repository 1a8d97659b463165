package config

import (
	"strings"

	"github.com/headgate/headgate/identity"
)

// A Setting has a flag, an environment variable, and a field at the top level of the file.
type Setting struct {
	Name  string // of the flag
	Arg   string // the name of the value in the help
	Usage string

	get func(*Config) string
	set func(*Config, string) error
}

// Variable returns the name of the environment variable.
func (s *Setting) Variable() string { return variablePrefix + variableName(s.Name) }

// Field returns the name of the field in the file.
func (s *Setting) Field() string { return strings.ReplaceAll(s.Name, "-", "_") }

// Default returns the default value.
func (s *Setting) Default() string {
	c := defaults()
	return s.get(&c)
}

const variablePrefix = "HEADGATE_"

// configName is the setting that names the file. It is not a field of the file.
const configName = "config"

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// Settings returns all settings except config, in the order of the help.
func Settings() []Setting {
	return []Setting{
		stringSetting("rules", "FILE",
			"rules file, YAML or JSON; watched for changes. Default: the rules of the rules service",
			func(c *Config) *string { return &c.Rules }),
		stringSetting("db", "DB",
			"database of the rules service: an SQLite file, or a postgres:// or redis:// URL. Default: a file in data-dir",
			func(c *Config) *string { return &c.DB }),
		stringSetting("db-follows", "FILE",
			"rules file that the database follows: it is watched, and the API cannot change rules",
			func(c *Config) *string { return &c.DBFollows }),
		stringSetting("control", "URL", "remote rules service to follow: the admin listener of another headgate",
			func(c *Config) *string { return &c.Control }),
		stringSetting("token-file", "FILE", "token for control, with the role node",
			func(c *Config) *string { return &c.TokenFile }),
		stringSetting("data-dir", "DIR",
			"directory for the database and copies of rules. Default: headgate in the user's directory for state",
			func(c *Config) *string { return &c.DataDir }),
		stringSetting("node-id", "ID",
			"name of this node at the rules service. Default: host name and a hash of the addresses",
			func(c *Config) *string { return &c.NodeID }),
		stringSetting("upstream", "URL",
			"service to protect, such as http://localhost:9000. Default: a built-in demo service",
			func(c *Config) *string { return &c.Upstream }),
		stringSetting("store", "STORE",
			"store of the counters: memory, or a redis://, rediss://, redis-cluster://, redis-sentinel:// or unix:// URL",
			func(c *Config) *string { return &c.Store }),
		stringSetting("global-store", "STORE",
			"store through which regions share limits, for rules with scope: global: a URL as for store",
			func(c *Config) *string { return &c.GlobalStore }),
		stringSetting("gateway-addr", "ADDR",
			"address of the gateway; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.GatewayAddr }),
		stringSetting("api-addr", "ADDR",
			"address of the decision service for HTTP with JSON and forward-auth; port 0, unix:PATH and off as for gateway-addr",
			func(c *Config) *string { return &c.APIAddr }),
		stringSetting("grpc-addr", "ADDR",
			"address of the decision service for gRPC, including Envoy's protocol; port 0, unix:PATH and off as for gateway-addr",
			func(c *Config) *string { return &c.GRPCAddr }),
		stringSetting("resp-addr", "ADDR",
			"address of the decision service for Redis clients; port 0, unix:PATH and off as for gateway-addr",
			func(c *Config) *string { return &c.RESPAddr }),
		stringSetting("admin-addr", "ADDR",
			"address of the console, the rules service, /metrics, /healthz and /readyz; port 0, unix:PATH and off as for gateway-addr",
			func(c *Config) *string { return &c.AdminAddr }),
		stringSetting("gossip-addr", "ADDR",
			"address for gossip between nodes, TCP and UDP; used if this, join or gossip-key-file is set",
			func(c *Config) *string { return &c.GossipAddr }),
		{
			Name: "join", Arg: "HOST:PORT,...", Usage: "some other nodes to gossip with",
			get: func(c *Config) string { return strings.Join(c.Join, ",") },
			set: func(c *Config, value string) error {
				c.Join = nil
				for part := range strings.SplitSeq(value, ",") {
					if part = strings.TrimSpace(part); part != "" {
						c.Join = append(c.Join, part)
					}
				}
				return nil
			},
		},
		stringSetting("gossip-key-file", "FILE", "key of 16, 24 or 32 bytes that encrypts gossip; the same on all nodes",
			func(c *Config) *string { return &c.GossipKeyFile }),
		{
			Name: "trusted-proxies", Arg: "CIDR,...",
			Usage: "networks of the proxies in front of this gateway, whose forwarding headers are trusted",
			get: func(c *Config) string {
				var list []string
				for _, p := range c.TrustedProxies {
					list = append(list, p.String())
				}
				return strings.Join(list, ",")
			},
			set: func(c *Config, value string) (err error) {
				c.TrustedProxies, err = identity.ParseNetworks(value)
				return err
			},
		},
		stringSetting("key-secret-file", "FILE",
			"secret of at least 16 bytes for the hashes of clients; the same on all nodes",
			func(c *Config) *string { return &c.KeySecretFile }),
		stringSetting("api-token-file", "FILE", "token of at least 16 characters that callers of the decision service need",
			func(c *Config) *string { return &c.APITokenFile }),
		stringSetting("admin-token-file", "FILE", "token of at least 16 characters with all permissions at the rules service",
			func(c *Config) *string { return &c.AdminTokenFile }),
		stringSetting("envoy-config", "DIR",
			"directory of limits for Envoy, in the format of envoyproxy/ratelimit; watched for changes. Default: the rules decide",
			func(c *Config) *string { return &c.EnvoyConfig }),
		stringSetting("namespace", "NAME", "namespace whose rules apply here",
			func(c *Config) *string { return &c.Namespace }),
		stringSetting("region", "NAME",
			"region of this node: the value of the attribute region, and its name for global limits",
			func(c *Config) *string { return &c.Region }),
		stringSetting("log-format", "FORMAT", "json or text", func(c *Config) *string { return &c.LogFormat }),
		stringSetting("log-level", "LEVEL", "debug, info, warn or error", func(c *Config) *string { return &c.LogLevel }),
	}
}

// stringSetting returns a setting whose value is the string that field returns.
func stringSetting(name, arg, usage string, field func(*Config) *string) Setting {
	return Setting{
		Name: name, Arg: arg, Usage: usage,
		get: func(c *Config) string { return *field(c) },
		set: func(c *Config, value string) error {
			*field(c) = value
			return nil
		},
	}
}
