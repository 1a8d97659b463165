package config

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
)

// Fleet configures how nodes and regions share limits.
type Fleet struct {
	Name           string        `field:"name" default:"headgate" doc:"Name of the fleet. Nodes with another name are ignored, even in the same network or Redis."`
	LeaseTTL       time.Duration `field:"lease_ttl" default:"100ms" doc:"How long a node may use leased units with consistency: lease. From 10ms to 100ms. In any interval, a limit may be exceeded by its rate times lease_ttl."`
	Interval       time.Duration `field:"interval" default:"100ms" doc:"Interval at which nodes exchange updates with consistency: async. From 10ms to 20s."`
	GlobalInterval time.Duration `field:"global_interval" default:"1s" doc:"Interval at which regions exchange updates for rules with scope: global. From 10ms to 20s."`
	LocalCap       int           `field:"local_cap" default:"100" doc:"Percentage of a limit that one node may use with consistency: async or gossip. A lower value reduces over-admission before updates arrive, but a client that uses only one node also gets less."`
	MaxKeys        int           `field:"max_keys" default:"1048576" doc:"Maximum number of keys that a node stores for each of the consistencies lease, async and gossip. At least 1024."`
	Advertise      string        `field:"advertise" doc:"Address at which other nodes reach gossip_addr, as host:port. Default: an address of this host and the port of gossip_addr."`
	Bandwidth      Size          `field:"bandwidth" default:"1MB" doc:"Maximum number of bytes that a node sends per second for gossip."`
	ForgetAfter    time.Duration `field:"forget_after" default:"24h" doc:"How long a gossip node that fell silent counts as lost, unless it returns or another node has its address. Meanwhile, rules with partition: share use only the live nodes' share of the limit. From 1m to 366d."`
}

// The bounds of the settings of Fleet. With a global store, maxRegion is the maximum length of Config.Region in bytes.
const (
	minLease, maxLease            = 10 * time.Millisecond, 100 * time.Millisecond
	minInterval, maxInterval      = 10 * time.Millisecond, 20 * time.Second
	minForget, maxForget          = time.Minute, 366 * 24 * time.Hour
	minFleetKeys                  = 1024
	minBandwidth             Size = 10_000
	maxFleetName                  = 32
	maxRegion                     = 64
)

// GossipEnabled reports whether the gossip listener is open.
func (c *Config) GossipEnabled() bool {
	return c.GossipAddr != Off && (c.IsSet("gossip-addr") || c.IsSet("join") || c.IsSet("gossip-key-file"))
}

func (c *Config) validateGlobalStore() error {
	if c.GlobalStore == "" {
		return nil
	}
	if !isStoreURL(c.GlobalStore) {
		return &valueError{
			"not a store that Headgate supports",
			"a URL that begins with redis://, rediss://, redis-cluster://, redis-sentinel:// or unix://",
		}
	}
	if c.Store == StoreMemory {
		return &valueError{"given with store: memory", "a store in Redis for this region as well"}
	}
	if c.Region == "" || len(c.Region) > maxRegion {
		return &valueError{
			"given without a region",
			"region as well, a name of at most 64 bytes that differs from those of other regions",
		}
	}
	return nil
}

func (c *Config) validateJoin() error {
	for _, addr := range c.Join {
		host, port, err := net.SplitHostPort(addr)
		if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil || n == 0 {
			return invalidValue(addr, "host:port")
		}
	}
	if len(c.Join) > 0 && c.GossipAddr == Off {
		return &valueError{"given while gossip_addr is off", onlyOne}
	}
	return nil
}

func (c *Config) validateFleet() error {
	f := &c.Fleet
	for _, d := range []struct {
		field            string
		value            time.Duration
		minimum, maximum time.Duration
	}{
		{"fleet.lease_ttl", f.LeaseTTL, minLease, maxLease},
		{"fleet.interval", f.Interval, minInterval, maxInterval},
		{"fleet.global_interval", f.GlobalInterval, minInterval, maxInterval},
		{"fleet.forget_after", f.ForgetAfter, minForget, maxForget},
	} {
		if d.value != 0 && (d.value < d.minimum || d.value > d.maximum) {
			return c.problemAt(d.field, rules.FormatDuration(d.value),
				rules.FormatDuration(d.minimum)+" to "+rules.FormatDuration(d.maximum))
		}
	}
	if len(f.Name) > maxFleetName || strings.ContainsFunc(f.Name, isInvalidNameRune) {
		return c.problemAt("fleet.name", f.Name, "letters, digits and . - _ only, at most "+strconv.Itoa(maxFleetName))
	}
	if f.LocalCap < 0 || f.LocalCap > 100 || f.LocalCap == 0 && c.fileHas("fleet", "local_cap") {
		return c.problemAt("fleet.local_cap", strconv.Itoa(f.LocalCap), "1 to 100")
	}
	if f.MaxKeys < minFleetKeys && c.fileHas("fleet", "max_keys") {
		return c.problemAt("fleet.max_keys", strconv.Itoa(f.MaxKeys), "at least "+strconv.Itoa(minFleetKeys))
	}
	if f.Advertise != "" {
		host, port, err := net.SplitHostPort(f.Advertise)
		if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil {
			return c.problemAt("fleet.advertise", f.Advertise, "host:port, with port 0 for the port of gossip_addr")
		}
	}
	if f.Bandwidth < minBandwidth && c.fileHas("fleet", "bandwidth") {
		return c.problemAt("fleet.bandwidth", f.Bandwidth.String(), "at least 10KB")
	}
	if host, _, err := net.SplitHostPort(c.GossipAddr); err == nil && host == "::" && f.Advertise == "" &&
		c.GossipEnabled() {
		return c.problemAt("fleet.advertise", "nothing",
			"an address at which other nodes reach this one, because gossip_addr listens on all IPv6 addresses")
	}
	return nil
}

// fileHas reports whether the file has a field, even if its value is zero.
func (c *Config) fileHas(section, field string) bool {
	if c.file == nil || c.file.parsed.Root == nil {
		return false
	}
	sectionNode := c.file.parsed.Root.Field(section)
	return sectionNode != nil && sectionNode.Field(field) != nil
}

func isInvalidNameRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_')
}
