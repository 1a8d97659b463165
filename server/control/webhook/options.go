package webhook

import (
	"cmp"
	"errors"
	"net/netip"
	"time"
)

// Options configure how webhooks are delivered. The zero Options are valid.
type Options struct {
	// Networks are private networks to which webhooks may be sent. All other private, loopback and link-local addresses
	// are refused, even if a host name resolves to them. Default none.
	Networks []netip.Prefix
	// Attempts is the number of attempts before a delivery becomes a dead letter. Default 10.
	Attempts int
	// Backoff is the time until the second attempt. It doubles with each further attempt, up to MaxBackoff. A random time
	// of up to one half is added. Default 1 s and 5 minutes.
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

var errNotPublic = errors.New("neither a public address nor in a network to which webhooks may be sent")

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

// specialNetworks are networks whose addresses netip.Addr.IsGlobalUnicast accepts, although they are not public. They
// are reserved, or their addresses are translated to others, which may be private.
var specialNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}
