package identity

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Defaults of a Config.
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

// Config configures an Identifier. The zero Config is for a server without proxies in front of it.
type Config struct {
	// TrustedProxies are the networks of the proxies in front of this server. Only their forwarding headers are
	// trusted. ParseNetworks parses them. Default none.
	TrustedProxies []netip.Prefix
	// Hops is the number of proxies that each request passes through, for proxies whose addresses are not known. The
	// client is the peer of the outermost of these proxies. Clients must not be able to reach this server directly,
	// because they could then choose their address. If TrustedProxies are set too, the nearest proxy must be one of them.
	// Default 0: the client is found by TrustedProxies alone.
	Hops int
	// ForwardingHeader is the header in which proxies send the address of their client. X-Forwarded-For and Forwarded (RFC
	// 7239) have a list. Any other header, such as CF-Connecting-IP, has one address. Only this header is read, because
	// proxies forward all other headers of a client unchanged. Default DefaultForwardingHeader.
	ForwardingHeader string

	// IPv4Prefix is the number of bits of an IPv4 address that distinguish clients. Default DefaultIPv4Prefix.
	IPv4Prefix int
	// IPv6Prefix is the number of bits of an IPv6 address that distinguish clients. A client usually has a whole network,
	// so with all bits it could choose among 2^64 identities. Default DefaultIPv6Prefix.
	IPv6Prefix int

	// APIKeyHeader and APIKeyQuery are the header and the query parameter with the API key. Default only the header
	// DefaultAPIKeyHeader.
	APIKeyHeader, APIKeyQuery string
	// UserFrom are the sources of the attribute user. The first source that has a value is used. Use UserFromBasic only if
	// passwords are checked in front of this server: otherwise anyone can use up another user's limits, by sending the
	// user's name and a wrong password. With UserFromBasicAndIP, each address that sends the name is a separate user.
	// Default UserFromToken, UserFromHeader, UserFromBasicAndIP.
	UserFrom []UserSource
	// UserHeader is the header in which a trusted proxy sends the user. The proxy must set or remove it in every request.
	// Default DefaultUserHeader.
	UserHeader string
	// Tokens verifies bearer tokens, and returns their claims. Default nil: there are no claims.
	Tokens TokenVerifier
	// Secret is the key of Seal and of the hashes that replace tokens and long values. It has at least 16 bytes. All nodes
	// that share limits need the same secret. Default: a random secret for the hashes, and no key for Seal.
	Secret []byte
	// SecondSecret is a second key for Unseal. While the Secret of a fleet is being replaced, set it to the old or the new
	// secret. It requires a Secret. Default: none.
	SecondSecret []byte

	// Paths configures how paths are read.
	Paths PathRules
	// Repeated selects the value of a cookie or query parameter that is repeated. Default RefuseRepeated.
	Repeated Repeated

	// Region and Namespace are the values of the attributes of these names. Default none.
	Region, Namespace string

	// MaxValue is the maximum length of a value in bytes. A longer value is replaced by its keyed hash, which still
	// distinguishes clients, but equals no value in a rule. Paths have their own limit. Default DefaultMaxValue.
	MaxValue int
	// MaxForwarded is the maximum number of elements of the forwarding header that are read, from the right. Default
	// DefaultMaxForwarded.
	MaxForwarded int
	// MaxCookies is the maximum length of the Cookie header in bytes. A longer header is malformed. Default
	// DefaultMaxCookies.
	MaxCookies int
	// MaxQuery is the maximum length of the query in bytes. A longer query is malformed. Default DefaultMaxQuery.
	MaxQuery int
	// MaxPath is the maximum length of the path in bytes. A longer path is malformed. Default DefaultMaxPath.
	MaxPath int
}

// Validate returns the first error in the Config.
func (c Config) Validate() error {
	c.setDefaults()
	return c.validate()
}

// setDefaults sets zero fields to their defaults.
func (c *Config) setDefaults() {
	if c.APIKeyHeader == "" && c.APIKeyQuery == "" {
		c.APIKeyHeader = DefaultAPIKeyHeader
	}
	c.UserHeader = cmp.Or(c.UserHeader, DefaultUserHeader)
	c.IPv4Prefix = cmp.Or(c.IPv4Prefix, DefaultIPv4Prefix)
	c.IPv6Prefix = cmp.Or(c.IPv6Prefix, DefaultIPv6Prefix)
	c.MaxValue = cmp.Or(c.MaxValue, DefaultMaxValue)
	c.MaxForwarded = cmp.Or(c.MaxForwarded, DefaultMaxForwarded)
	c.MaxCookies = cmp.Or(c.MaxCookies, DefaultMaxCookies)
	c.MaxQuery = cmp.Or(c.MaxQuery, DefaultMaxQuery)
	c.MaxPath = cmp.Or(c.MaxPath, DefaultMaxPath)
}

func (c *Config) validate() error {
	if err := c.validateProxies(); err != nil {
		return err
	}
	if err := c.validateUser(); err != nil {
		return err
	}
	for _, n := range []struct {
		field            string
		value            int
		minimum, maximum int
	}{
		{"IPv4Prefix", c.IPv4Prefix, 1, 32},
		{"IPv6Prefix", c.IPv6Prefix, 1, 128},
		{"MaxValue", c.MaxValue, 16, maxInputBytes},
		{"MaxForwarded", c.MaxForwarded, 1, 1000},
		{"MaxCookies", c.MaxCookies, 16, 1 << 20},
		{"MaxQuery", c.MaxQuery, 16, 1 << 20},
		{"MaxPath", c.MaxPath, 16, 1 << 20},
	} {
		if n.value < n.minimum || n.value > n.maximum {
			return fmt.Errorf("identity: %s %d: want %d to %d, or 0 for the default", n.field, n.value, n.minimum, n.maximum)
		}
	}
	for _, h := range []struct{ field, name string }{
		{"APIKeyHeader", c.APIKeyHeader}, {"UserHeader", c.UserHeader}, {"ForwardingHeader", c.ForwardingHeader},
	} {
		if h.name != "" && !isToken(h.name) {
			return fmt.Errorf("identity: %s %s: want the name of a header, such as X-API-Key", h.field, quote(h.name))
		}
	}
	if n := len(c.SecondSecret); n > 0 && (n < minSecret || len(c.Secret) == 0) {
		return fmt.Errorf("identity: SecondSecret of %d bytes, and a Secret of %d: want at least %d in each",
			n, len(c.Secret), minSecret)
	}
	if len(c.Secret) > 0 && len(c.Secret) < minSecret {
		return fmt.Errorf("identity: Secret of %d bytes: want at least %d, better 32 random ones", len(c.Secret), minSecret)
	}
	if err := c.Repeated.validate(); err != nil {
		return err
	}
	return c.Paths.validate()
}

func (c *Config) validateProxies() error {
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
	if !c.trustsProxies() {
		return fmt.Errorf("identity: ForwardingHeader %s: nobody is trusted to send it: want TrustedProxies or Hops",
			quote(c.ForwardingHeader))
	}
	switch name := textproto.CanonicalMIMEHeaderKey(c.ForwardingHeader); {
	case c.Hops > 0 && formatOf(name) == singleAddress:
		return fmt.Errorf("identity: ForwardingHeader %s with Hops %d: it holds one address, so there is nothing to count: "+
			"want TrustedProxies, or X-Forwarded-For or Forwarded", quote(c.ForwardingHeader), c.Hops)
	case name == "Host" || name == "Cookie" || name == "Connection" || isSecret(strings.ToLower(name)):
		return fmt.Errorf("identity: ForwardingHeader %s: want a header with a client's address", quote(c.ForwardingHeader))
	}
	return nil
}

// trustsProxies reports whether any proxy is trusted.
func (c *Config) trustsProxies() bool { return c.Hops > 0 || len(c.TrustedProxies) > 0 }

func (c *Config) validateUser() error {
	for i, s := range c.UserFrom {
		if s < UserFromBasic || s > UserFromBasicAndIP {
			return fmt.Errorf("identity: UserFrom %d: "+
				"want UserFromBasic, UserFromToken, UserFromHeader or UserFromBasicAndIP", s)
		}
		if slices.Contains(c.UserFrom[:i], s) {
			return fmt.Errorf("identity: UserFrom has %v twice: want each once", s)
		}
		if s == UserFromHeader && !c.trustsProxies() {
			return fmt.Errorf("identity: UserFrom %v: nobody is trusted to send %s: want TrustedProxies or Hops",
				s, c.UserHeader)
		}
		if s == UserFromToken && c.Tokens == nil {
			return fmt.Errorf("identity: UserFrom %v: want Tokens, which verifies tokens", s)
		}
	}
	return nil
}

// inToken says which bytes may be in header names.
var inToken = func() (table [256]bool) {
	for c := range 256 {
		table[c] = c > ' ' && c < 0x7f && strings.IndexByte(`"(),/:;<=>?@[\]{}`, byte(c)) < 0
	}
	return table
}()

// isToken reports whether the text is a valid header name.
func isToken(s string) bool {
	for i := range len(s) {
		if !inToken[s[i]] {
			return false
		}
	}
	return s != "" && len(s) <= 256
}
