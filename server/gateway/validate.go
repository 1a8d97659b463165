package gateway

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// The maximum values of durations and counts. They are far above useful values, and prevent overflow of sums.
const (
	maxDuration = 30 * 24 * time.Hour
	maxCount    = 1 << 30
)

func (c *Config) validate() error {
	var errs configErrors
	for _, d := range []struct {
		field   string
		value   time.Duration
		minimum time.Duration
	}{
		{"HeaderTimeout", c.HeaderTimeout, time.Millisecond},
		{"IdleTimeout", c.IdleTimeout, time.Millisecond},
		{"BodyTimeout", c.BodyTimeout, time.Millisecond},
		{"WriteTimeout", c.WriteTimeout, time.Millisecond},
		{"StreamTimeout", c.StreamTimeout, time.Millisecond},
		{"MaxUpgradeAge", c.MaxUpgradeAge, 0},
		{"DrainDelay", c.DrainDelay, 0},
		{"DrainLinger", c.DrainLinger, 0},
		{"UpgradeGrace", c.UpgradeGrace, 0},
		{"DrainTimeout", c.DrainTimeout, time.Millisecond},
	} {
		validateRange(&errs, d.field, d.value, d.minimum, maxDuration)
	}
	validateRange(&errs, "MinBodyRate", c.MinBodyRate, -1, maxCount)
	validateRange(&errs, "MaxHeader", c.MaxHeader, 1<<10, 16<<20)
	validateRange(&errs, "MaxBody", c.MaxBody, 0, 1<<60)
	validateRange(&errs, "MaxConns", c.MaxConns, 1, maxCount)
	validateRange(&errs, "MaxConnsPerAddress", c.MaxConnsPerAddress, -1, maxCount)
	validateRange(&errs, "MaxStreams", c.MaxStreams, 1, 1<<20)
	validateRange(&errs, "MaxUpgrades", c.MaxUpgrades, 1, maxCount)
	c.validateNames(&errs)
	for i := range c.Listeners {
		c.Listeners[i].validate(&errs, indexed("Listeners", i))
	}
	c.validateRoutes(&errs)
	if c.AccessLog != nil {
		c.AccessLog.validate(&errs)
	}
	return errs.err()
}

func (c *Config) validateNames(errs *configErrors) {
	for i, name := range c.Upgrades {
		field := indexed("Upgrades", i)
		switch {
		case !isName(name):
			errs.add(field, quote(name), "the name of a protocol, such as websocket")
		case http1.CarriesHTTP(name):
			errs.add(field, quote(name), "a protocol that carries no HTTP requests, since limits would not see them")
		}
	}
	for i, name := range c.OnlyFromProxies {
		validateHeaderName(errs, indexed("OnlyFromProxies", i), name)
	}
	validateHeaderName(errs, "RequestIDHeader", c.RequestIDHeader)
	if c.Via != "" && !isName(c.Via) {
		errs.add("Via", quote(c.Via), "a name such as headgate, without spaces")
	}
}

func validateHeaderName(errs *configErrors, field, name string) {
	switch {
	case !isName(name):
		errs.add(field, quote(name), "the name of a header, such as X-Request-ID")
	case http1.IsReserved(name):
		errs.add(field, quote(name), "a header that HTTP itself does not use")
	}
}

func (c *Config) validateRoutes(errs *configErrors) {
	if len(c.Routes) == 0 {
		errs.add("Routes", "", "at least one, with an upstream")
	}
	seen := make(map[string]int, len(c.Routes))
	names := make(map[string]int, len(c.Routes))
	for i := range c.Routes {
		r := &c.Routes[i]
		r.validate(errs, indexed("Routes", i))
		if first, twice := seen[r.Host+r.Path]; twice {
			errs.add(indexed("Routes", i), quote(r.Host+r.Path),
				"one route for each host and path, but "+indexed("Routes", first)+" has the same")
		}
		seen[r.Host+r.Path] = i
		if first, twice := names[r.Name]; twice {
			errs.add(indexed("Routes", i)+".Name", quote(r.Name),
				"a name that no other route has, but "+indexed("Routes", first)+" has the same")
		}
		names[r.Name] = i
	}
}

// validateRange adds an error if a value is too small or too large.
func validateRange[T cmp.Ordered](errs *configErrors, field string, value, minimum, maximum T) {
	if value < minimum || value > maximum {
		errs.add(field, fmt.Sprint(value), fmt.Sprintf("%v to %v", minimum, maximum))
	}
}

func indexed(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// isName reports whether s can name a header or a protocol.
func isName(s string) bool { return len(s) <= 256 && http1.IsToken(s) }

// quote quotes a value for an error message, and shortens a long one.
func quote(s string) string {
	const maxShown = 80
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}
