package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/telemetry"
)

// redisSchemes are the prefixes of Redis URLs, for the store and the database.
var redisSchemes = []string{
	"redis://", "rediss://", "redis-cluster://", "rediss-cluster://", "redis-sentinel://", "rediss-sentinel://", "unix://",
	"redis+unix://",
}

// validate checks the settings and their combinations, without network access.
func (c *Config) validate() error {
	for _, check := range []struct {
		setting string
		run     func() error
	}{
		{"store", c.validateStore},
		{"global-store", c.validateGlobalStore},
		{"gossip-addr", func() error { return validateAddress(c.GossipAddr) }},
		{"join", c.validateJoin},
		{"rules", c.validateRules},
		{"control", c.validateControl},
		{"token-file", c.validateTokenFile},
		{"db", c.validateDB},
		{"db-follows", c.validateDBFollows},
		{"node-id", func() error { return validateID(c.NodeID) }},
		{"gateway-addr", func() error { return validateListenAddress(c.GatewayAddr) }},
		{"api-addr", func() error { return validateListenAddress(c.APIAddr) }},
		{"grpc-addr", func() error { return validateListenAddress(c.GRPCAddr) }},
		{"resp-addr", func() error { return validateListenAddress(c.RESPAddr) }},
		{"envoy-config", c.validateEnvoy},
		{"admin-addr", func() error { return validateListenAddress(c.AdminAddr) }},
		{"demo-traffic", c.validateDemoTraffic},
		{"traces", c.validateTraces},
		{"traces-sample", c.validateTracesSample},
		{"traces-parents", c.validateTracesParents},
		{"log-format", c.validateLogFormat},
		{"log-level", func() error { _, err := telemetry.ParseLevels(c.LogLevel); return err }},
		{"gateway-addr", c.validateListeners},
		{"trusted-proxies", c.validateProxies},
		{"namespace", func() error { return validateID(c.Namespace) }},
		{"region", func() error { return validateRegion(c.Region) }},
	} {
		if err := check.run(); err != nil {
			return fmt.Errorf("%s: %w", c.Origin(check.setting), err)
		}
	}
	return c.validateSections()
}

func (c *Config) validateStore() error {
	if c.Store == StoreMemory {
		return nil
	}
	if isStoreURL(c.Store) {
		return nil
	}
	// Do not show the value: it may contain a password.
	return &valueError{
		"not a store that Headgate supports",
		"memory, or a URL that begins with redis://, rediss://, redis-cluster://, redis-sentinel:// or unix://",
	}
}

func isStoreURL(text string) bool {
	return slices.ContainsFunc(redisSchemes, func(scheme string) bool { return strings.HasPrefix(text, scheme) })
}

func (c *Config) validateLogFormat() error {
	switch c.LogFormat {
	case telemetry.LogAuto, telemetry.LogJSON, telemetry.LogText:
		return nil
	}
	return invalidValue(c.LogFormat, "auto, json or text")
}

// validateListenAddress checks an address to listen on, for TCP or a Unix socket.
func validateListenAddress(addr string) error {
	const want = "host:port or :port, where port 0 picks a free port, unix: and a path, or off"
	switch network, path := conns.Split(addr); {
	case network == "unix" && path == "":
		return invalidValue(addr, want)
	case network == "unix":
		return nil
	case validateAddress(addr) != nil:
		return invalidValue(addr, want)
	}
	return nil
}

// validateAddress checks an address to listen on, for TCP.
func validateAddress(addr string) error {
	const want = "host:port or :port, where port 0 picks a free port, or off"
	if addr == Off {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return invalidValue(addr, want)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return invalidValue(addr, want)
	}
	return nil
}

// validateListeners returns an error if both gateway-addr and gateway.listeners are set. Otherwise an address without
// TLS could replace listeners with TLS by accident.
func (c *Config) validateListeners() error {
	if len(c.Gateway.Listeners) > 0 && c.IsSet("gateway-addr") {
		return &valueError{"given as well as gateway.listeners at " + c.position("gateway.listeners"), onlyOne}
	}
	return nil
}

func (c *Config) validateProxies() error {
	if len(c.Identity.TrustedProxies) == 0 {
		return nil
	}
	if c.IsSet("trusted-proxies") {
		return &valueError{
			"given as well as identity.trusted_proxies at " + c.position("identity.trusted_proxies"),
			onlyOne,
		}
	}
	c.TrustedProxies = c.Identity.TrustedProxies
	return nil
}

// validateID checks a name that is part of calls to the rules service. With an invalid name, a node would never get
// rules.
func validateID(name string) error {
	if name == "" {
		return nil
	}
	return control.CheckName(name)
}

// validateRegion checks the name of a region.
func validateRegion(name string) error {
	const maxBytes = 128
	if len(name) > maxBytes || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return invalidValue(name, "a name without spaces, of at most "+strconv.Itoa(maxBytes)+" bytes")
	}
	return nil
}
