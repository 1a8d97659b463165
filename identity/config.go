package identity

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
)

// What a Config holds unless told otherwise.
const (
	DefaultForwardingHeader = "X-Forwarded-For"
	DefaultIPv4Prefix       = 32
	DefaultIPv6Prefix       = 64
	DefaultAPIKeyHeader     = "X-API-Key"
	DefaultUserHeader       = "X-User-ID"
	DefaultMaxValue         = 1 << 10
	DefaultMaxForwarded     = 32
	DefaultMaxCookies       = 16 << 10
	DefaultMaxQuery         = 16 << 10
	DefaultMaxPath          = 8 << 10
)

const minSecret = 16

// Config says whom to believe what. The zero Config is good for a server that clients reach without a proxy.
type Config struct {
	// TrustedProxies are the networks of the proxies before this server. What one of them says of its client is believed,
	// what others say is not. ParseNetworks reads them from text. Default none.
	TrustedProxies []netip.Prefix
	// Hops is how many proxies each request passes, for when their addresses are not known: the client is the one that the
	// outermost saw. Who can reach this server without passing them chooses his address, so see to it that nobody can; if
	// TrustedProxies are given too, the nearest proxy must be one of them. Default 0: their addresses tell.
	Hops int
	// ForwardingHeader is where proxies name their client. X-Forwarded-For holds a list and so does Forwarded, in the form of
	// RFC 7239. Any other, such as CF-Connecting-IP, holds one address. Only this one is read, since a proxy lets pass what it
	// does not know. Default DefaultForwardingHeader.
	ForwardingHeader string

	// IPv4Prefix is how many bits of an IPv4 address tell clients apart. Default DefaultIPv4Prefix.
	IPv4Prefix int
	// IPv6Prefix is how many bits of an IPv6 address tell clients apart: a client has a network rather than an address, and
	// would otherwise have 2^64 names. Default DefaultIPv6Prefix.
	IPv6Prefix int

	// APIKeyHeader and APIKeyQuery are the header and the parameter that hold an API key. Default the header
	// DefaultAPIKeyHeader alone.
	APIKeyHeader, APIKeyQuery string
	// UserFrom says where to look for the attribute user, in this order. The name in UserFromBasic is one that anybody can
	// send with a wrong password, and so use up the limits of its user: name it only where passwords have been checked before
	// requests come here. With UserFromBasicAndIP each address that sends the name is a user of its own. Default UserFromToken,
	// UserFromHeader, UserFromBasicAndIP.
	UserFrom []UserSource
	// UserHeader is the header in which a trusted proxy names the user. The proxy must set or remove it in every request.
	// Default DefaultUserHeader.
	UserHeader string
	// Tokens verifies bearer tokens for the claims in them. Default nobody: then there are none.
	Tokens TokenVerifier
	// Secret keys the hash that stands for tokens and for long values. All nodes that share limits need the same. At least
	// 16 bytes. Default one by chance, which is good for one process.
	Secret []byte

	// Paths says how the path of a request is read.
	Paths PathRules
	// Repeated says which value counts of a cookie or a parameter that is there several times. Default RefuseRepeated.
	Repeated Repeated

	// Region and Namespace are the values of the attributes of these names. Default none.
	Region, Namespace string

	// MaxValue is the longest value in bytes that is used as it is. A longer one is replaced by its keyed hash: it still
	// tells clients apart, but equals nothing that a rule can say. The path has a bound of its own. Default DefaultMaxValue.
	MaxValue int
	// MaxForwarded is how many elements of the forwarding header are looked at, from the right. Default DefaultMaxForwarded.
	MaxForwarded int
	// MaxCookies is how long the Cookie header may be, in bytes. A longer one is malformed. Default DefaultMaxCookies.
	MaxCookies int
	// MaxQuery is how long the query may be, in bytes. A longer one is malformed. Default DefaultMaxQuery.
	MaxQuery int
	// MaxPath is how long the path may be, in bytes. A longer one is malformed. Default DefaultMaxPath.
	MaxPath int
}

// Validate reports what is wrong with the Config, and what would be right.
func (c Config) Validate() error {
	c.fill()
	return c.check()
}

// fill sets what is zero to its default.
func (c *Config) fill() {
	if c.APIKeyHeader == "" && c.APIKeyQuery == "" {
		c.APIKeyHeader = DefaultAPIKeyHeader
	}
	c.UserHeader = or(c.UserHeader, DefaultUserHeader)
	c.IPv4Prefix = or(c.IPv4Prefix, DefaultIPv4Prefix)
	c.IPv6Prefix = or(c.IPv6Prefix, DefaultIPv6Prefix)
	c.MaxValue = or(c.MaxValue, DefaultMaxValue)
	c.MaxForwarded = or(c.MaxForwarded, DefaultMaxForwarded)
	c.MaxCookies = or(c.MaxCookies, DefaultMaxCookies)
	c.MaxQuery = or(c.MaxQuery, DefaultMaxQuery)
	c.MaxPath = or(c.MaxPath, DefaultMaxPath)
}

func or[T comparable](value, instead T) T {
	var zero T
	if value == zero {
		return instead
	}
	return value
}

func (c *Config) check() error {
	if err := c.checkProxies(); err != nil {
		return err
	}
	if err := c.checkUser(); err != nil {
		return err
	}
	for _, n := range []struct {
		field       string
		value       int
		least, most int
	}{
		{"IPv4Prefix", c.IPv4Prefix, 1, 32},
		{"IPv6Prefix", c.IPv6Prefix, 1, 128},
		{"MaxValue", c.MaxValue, 16, maxHashed},
		{"MaxForwarded", c.MaxForwarded, 1, 1000},
		{"MaxCookies", c.MaxCookies, 16, 1 << 20},
		{"MaxQuery", c.MaxQuery, 16, 1 << 20},
		{"MaxPath", c.MaxPath, 16, 1 << 20},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("identity: %s %d: want %d to %d, or 0 for the default", n.field, n.value, n.least, n.most)
		}
	}
	for _, h := range []struct{ field, name string }{
		{"APIKeyHeader", c.APIKeyHeader}, {"UserHeader", c.UserHeader}, {"ForwardingHeader", c.ForwardingHeader},
	} {
		if h.name != "" && !isToken(h.name) {
			return fmt.Errorf("identity: %s %s: want the name of a header, such as X-API-Key", h.field, quote(h.name))
		}
	}
	if len(c.Secret) > 0 && len(c.Secret) < minSecret {
		return fmt.Errorf("identity: Secret of %d bytes: want at least %d, better 32 by chance", len(c.Secret), minSecret)
	}
	if err := c.Repeated.validate(); err != nil {
		return err
	}
	return c.Paths.validate()
}

func (c *Config) checkProxies() error {
	for _, p := range c.TrustedProxies {
		if err := checkTrusted(p); err != nil {
			return err
		}
	}
	if c.Hops < 0 || c.Hops > c.MaxForwarded {
		return fmt.Errorf("identity: Hops %d: want 0 to %d (MaxForwarded)", c.Hops, c.MaxForwarded)
	}
	if c.ForwardingHeader == "" {
		return nil
	}
	if !c.trusts() {
		return fmt.Errorf("identity: ForwardingHeader %s: nobody is trusted to send it: want TrustedProxies or Hops",
			quote(c.ForwardingHeader))
	}
	switch name := textproto.CanonicalMIMEHeaderKey(c.ForwardingHeader); {
	case c.Hops > 0 && formOf(name) == formAddress:
		return fmt.Errorf("identity: ForwardingHeader %s with Hops %d: it holds one address, so there is nothing to count: "+
			"want TrustedProxies, or X-Forwarded-For or Forwarded", quote(c.ForwardingHeader), c.Hops)
	case name == "Host" || name == "Cookie" || name == "Connection" || isSecret(strings.ToLower(name)):
		return fmt.Errorf("identity: ForwardingHeader %s: want one that names a client's address", quote(c.ForwardingHeader))
	}
	return nil
}

// trusts reports whether there are proxies to believe.
func (c *Config) trusts() bool { return c.Hops > 0 || len(c.TrustedProxies) > 0 }

func (c *Config) checkUser() error {
	for i, s := range c.UserFrom {
		if s < UserFromBasic || s > UserFromBasicAndIP {
			return fmt.Errorf("identity: UserFrom %d: want UserFromBasic, UserFromToken, UserFromHeader or UserFromBasicAndIP", s)
		}
		for _, earlier := range c.UserFrom[:i] {
			if s == earlier {
				return fmt.Errorf("identity: UserFrom has %v twice: want each once", s)
			}
		}
		if s == UserFromHeader && !c.trusts() {
			return fmt.Errorf("identity: UserFrom %v: nobody is trusted to send %s: want TrustedProxies or Hops", s, c.UserHeader)
		}
		if s == UserFromToken && c.Tokens == nil {
			return fmt.Errorf("identity: UserFrom %v: want Tokens, which verifies them", s)
		}
	}
	return nil
}

// inToken has the bytes that names of headers are made of.
var inToken = func() (table [256]bool) {
	for c := range 256 {
		table[c] = c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, byte(c)) < 0
	}
	return table
}()

// isToken reports whether the text can name a header.
func isToken(s string) bool {
	for i := range len(s) {
		if !inToken[s[i]] {
			return false
		}
	}
	return s != "" && len(s) <= 256
}
