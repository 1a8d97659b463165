package webhook

import (
	"cmp"
	"errors"
	"net/netip"
	"time"
)

// Options configure how webhooks are delivered. The zero Options are valid.
type Options struct {
	// Networks are additional networks to which webhooks may be sent. Other private, loopback and link-local addresses are
	// refused, also if a name resolves to them. Default none.
	Networks []netip.Prefix
	// Attempts is the number of attempts before a delivery becomes a dead letter. Default 10.
	Attempts int
	// Backoff is the wait after the first failed attempt. Each later wait is twice as long, up to MaxBackoff, plus a
	// random part of up to a half. Default 1 s and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// Timeout limits one attempt. Default 10 s.
	Timeout time.Duration
	// Parallel is the maximum number of concurrent attempts. Default 8.
	Parallel int
	// Keep is how long deliveries are stored. Default 7 days.
	Keep time.Duration
}

var errOptions = errors.New("webhook: want at least one attempt, one parallel request, no negative times, " +
	"and a MaxBackoff not below Backoff")

// validate sets the defaults and returns an error if an option is invalid.
func (o *Options) validate() error {
	o.Attempts = cmp.Or(o.Attempts, 10)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 5*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 8)
	o.Keep = cmp.Or(o.Keep, 7*24*time.Hour)
	if o.Attempts < 1 || o.Backoff < 0 || o.MaxBackoff < o.Backoff || o.Timeout < 0 || o.Parallel < 1 || o.Keep < 0 {
		return errOptions
	}
	return nil
}

var errNotPublic = errors.New("not a public address, nor of a network that webhooks may be sent to")

// allow returns an error if webhooks must not be sent to an address.
func (o *Options) allow(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	for _, n := range o.Networks {
		if n.Contains(addr) {
			return nil
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return errNotPublic
	}
	for _, n := range specialNetworks {
		if n.Contains(addr) {
			return errNotPublic
		}
	}
	return nil
}

// specialNetworks are networks that package netip takes for public: reserved ones, and those whose addresses are
// translated into other, possibly private ones.
var specialNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}
