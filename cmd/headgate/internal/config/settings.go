package config

import (
	"strings"

	"github.com/headgate/headgate/identity"
)

// A Setting is one that has a flag, a variable, and a field at the top of the file.
type Setting struct {
	// Name is that of its flag.
	Name string
	// Arg stands for its value in help, and Usage says what it does.
	Arg, Usage string

	get func(*Config) string
	set func(*Config, string) error
}

// Variable is its name in the environment.
func (s *Setting) Variable() string { return variablePrefix + upper(s.Name) }

// Field is its name in the file.
func (s *Setting) Field() string { return strings.ReplaceAll(s.Name, "-", "_") }

// Default is its value if nobody gives one.
func (s *Setting) Default() string {
	c := defaults()
	return s.get(&c)
}

const variablePrefix = "HEADGATE_"

// configName is the setting that names the file, which the file cannot.
const configName = "config"

func upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// Settings are all of them but config, in the order in which help lists them.
func Settings() []Setting {
	return []Setting{
		text("rules", "FILE", "rules to enforce, YAML or JSON; watched for changes. Without it, those of the rules service",
			func(c *Config) *string { return &c.Rules }),
		text("db", "DB", "where the rules service keeps rules: a file, or a URL of postgres:// or redis://. Without it, a file in data-dir",
			func(c *Config) *string { return &c.DB }),
		text("db-follows", "FILE", "rules file that the database follows: it is watched, and the API changes no rules",
			func(c *Config) *string { return &c.DBFollows }),
		text("control", "URL", "rules service whose rules to take, the admin listener of another headgate",
			func(c *Config) *string { return &c.Control }),
		text("token-file", "FILE", "token of the role node that control is shown",
			func(c *Config) *string { return &c.TokenFile }),
		text("data-dir", "DIR", "where rules are kept. Without it, headgate in the user's directory for state",
			func(c *Config) *string { return &c.DataDir }),
		text("node-id", "ID", "how the rules service knows this node. Without it, a name by host and addresses",
			func(c *Config) *string { return &c.NodeID }),
		text("upstream", "URL", "service to protect, such as http://localhost:9000. Without it, a built-in one for demonstration",
			func(c *Config) *string { return &c.Upstream }),
		text("store", "STORE", "where to count: memory, or a URL of redis://, rediss://, redis-cluster://, redis-sentinel:// or unix://",
			func(c *Config) *string { return &c.Store }),
		text("global-store", "STORE", "where regions tell each other what they took, for rules with scope: global: a URL as store has it",
			func(c *Config) *string { return &c.GlobalStore }),
		text("gateway-addr", "ADDR", "where clients connect; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.GatewayAddr }),
		text("api-addr", "ADDR", "where the decision service answers HTTP with JSON and forward-auth; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.APIAddr }),
		text("grpc-addr", "ADDR", "where the decision service answers gRPC, its own and Envoy's; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.GRPCAddr }),
		text("resp-addr", "ADDR", "where the decision service answers clients of Redis; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.RESPAddr }),
		text("admin-addr", "ADDR", "where the rules service, /metrics, /healthz and /readyz are; port 0 picks one, unix:PATH is a socket, off turns it off",
			func(c *Config) *string { return &c.AdminAddr }),
		text("gossip-addr", "ADDR", "where nodes tell each other what they took, TCP and UDP; in use if this, join or gossip-key-file is given",
			func(c *Config) *string { return &c.GossipAddr }),
		{
			Name: "join", Arg: "HOST:PORT,...", Usage: "some of the other nodes that gossip",
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
		text("gossip-key-file", "FILE", "key of 16, 24 or 32 bytes that gossip is encrypted with; the same on all nodes",
			func(c *Config) *string { return &c.GossipKeyFile }),
		{
			Name: "trusted-proxies", Arg: "CIDR,...",
			Usage: "networks of the proxies before this gateway, whose word on the client's address is believed",
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
		text("key-secret-file", "FILE", "secret of at least 16 bytes that keys the hashes which stand for clients; the same on all nodes",
			func(c *Config) *string { return &c.KeySecretFile }),
		text("api-token-file", "FILE", "token of at least 16 characters that callers of the decision service must show",
			func(c *Config) *string { return &c.APITokenFile }),
		text("admin-token-file", "FILE", "token of at least 16 characters that may do everything at the rules service",
			func(c *Config) *string { return &c.AdminTokenFile }),
		text("envoy-config", "DIR", "limits for Envoys, in the format of envoyproxy/ratelimit; watched for changes. Without it, the rules decide",
			func(c *Config) *string { return &c.EnvoyConfig }),
		text("namespace", "NAME", "the service whose rules apply here",
			func(c *Config) *string { return &c.Namespace }),
		text("region", "NAME", "where this node is: the value of the attribute region, and what global limits are told by",
			func(c *Config) *string { return &c.Region }),
		text("log-format", "FORMAT", "json or text", func(c *Config) *string { return &c.LogFormat }),
		text("log-level", "LEVEL", "debug, info, warn or error", func(c *Config) *string { return &c.LogLevel }),
	}
}

// text is a setting that is kept as it is written.
func text(name, arg, usage string, of func(*Config) *string) Setting {
	return Setting{
		Name: name, Arg: arg, Usage: usage,
		get: func(c *Config) string { return *of(c) },
		set: func(c *Config, value string) error {
			*of(c) = value
			return nil
		},
	}
}
