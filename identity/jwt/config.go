package jwt

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Defaults of a Config.
const (
	DefaultLeeway      = 30 * time.Second
	DefaultMaxToken    = 8 << 10
	DefaultRefresh     = 15 * time.Minute
	DefaultFileRefresh = 10 * time.Second
	DefaultMaxStale    = 24 * time.Hour
)

// Config configures a Verifier. One of JWKSURL, JWKSFile, Secret and Unverified must be set.
type Config struct {
	// JWKSURL is the URL of the issuer's keys.
	JWKSURL string
	// JWKSFile is a file with keys. It is read again every Refresh.
	JWKSFile string
	// Secret is a key shared with the issuer, for HMAC. At least 32 bytes; 48 for HS384, 64 for HS512.
	Secret []byte
	// Unverified accepts tokens without checking their signatures. Set it only behind a gateway that has verified the
	// tokens; otherwise clients could choose their identity.
	Unverified bool

	// Algorithms are the allowed algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA (or
	// Ed25519), and HS256, HS384, HS512 with a Secret or a JWKSFile. Default HS256 with a Secret, otherwise all algorithms
	// with public keys.
	Algorithms []string
	// Issuer is the required value of the claim iss. Default: any value.
	Issuer string
	// Audience has the accepted values of the claim aud. Default: any value.
	Audience []string
	// Leeway is the tolerated clock skew, at most 5 minutes. Default DefaultLeeway.
	Leeway time.Duration
	// NoExpiry accepts tokens without the claim exp. Default false.
	NoExpiry bool
	// MaxToken is the maximum length of a token in bytes, at most 64 KiB. Default DefaultMaxToken.
	MaxToken int

	// Refresh is the time between two reads of the keys, at least a second. Default DefaultRefresh, or DefaultFileRefresh
	// for a JWKSFile.
	Refresh time.Duration
	// MaxStale is how long keys stay in use after the last successful read. Default DefaultMaxStale.
	MaxStale time.Duration
	// AllowHTTP allows a JWKSURL with http on another host. Anyone on the network path can then replace the keys. Default
	// false.
	AllowHTTP bool
	// Client fetches JWKSURL. Default: a client with a timeout of 5 s.
	Client *http.Client
	// Logger logs failures to read keys. Default slog.Default().
	Logger *slog.Logger
	// Now returns the current time, by which tokens expire. Default time.Now.
	Now func() time.Time
}

// Validate returns the first error in the Config.
func (c Config) Validate() error {
	c.setDefaults()
	return c.validate()
}

func (c *Config) setDefaults() {
	if len(c.Algorithms) == 0 {
		if len(c.Secret) > 0 {
			c.Algorithms = []string{"HS256"}
		} else {
			c.Algorithms = publicAlgorithms()
		}
	}
	c.Leeway = cmp.Or(c.Leeway, DefaultLeeway)
	c.MaxToken = cmp.Or(c.MaxToken, DefaultMaxToken)
	if c.JWKSFile != "" {
		c.Refresh = cmp.Or(c.Refresh, DefaultFileRefresh)
	}
	c.Refresh = cmp.Or(c.Refresh, DefaultRefresh)
	c.MaxStale = cmp.Or(c.MaxStale, DefaultMaxStale)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the one clock of the package
	}
}

func (c *Config) validate() error {
	sources := 0
	for _, isSet := range [...]bool{c.JWKSURL != "", c.JWKSFile != "", len(c.Secret) > 0, c.Unverified} {
		if isSet {
			sources++
		}
	}
	if sources != 1 {
		return fmt.Errorf("jwt: %d of JWKSURL, JWKSFile, Secret and Unverified are set: want one", sources)
	}
	if err := c.validateAlgorithms(); err != nil {
		return err
	}
	if c.JWKSURL != "" {
		if err := checkURL(c.JWKSURL, c.AllowHTTP); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		field            string
		value            time.Duration
		minimum, maximum time.Duration
	}{
		{"Leeway", c.Leeway, 1, 5 * time.Minute},
		{"Refresh", c.Refresh, time.Second, 30 * 24 * time.Hour},
		{"MaxStale", c.MaxStale, time.Second, 365 * 24 * time.Hour},
	} {
		if d.value < d.minimum || d.value > d.maximum {
			return fmt.Errorf("jwt: %s %v: want %v to %v, or 0 for the default", d.field, d.value, d.minimum, d.maximum)
		}
	}
	if c.MaxToken < 64 || c.MaxToken > 64<<10 {
		return fmt.Errorf("jwt: MaxToken %d: want 64 to %d, or 0 for %d", c.MaxToken, 64<<10, DefaultMaxToken)
	}
	return nil
}

func (c *Config) validateAlgorithms() error {
	for _, name := range c.Algorithms {
		a, ok := algorithms[name]
		switch {
		case !ok:
			return fmt.Errorf("jwt: algorithm %q: want one of %v, HS256, HS384 or HS512", name, publicAlgorithms())
		case a.kind == kindHMAC && c.JWKSURL != "":
			return fmt.Errorf("jwt: algorithm %s with JWKSURL: "+
				"published keys are not secret: want Secret or JWKSFile", name)
		case a.kind != kindHMAC && len(c.Secret) > 0:
			return fmt.Errorf("jwt: algorithm %s with Secret: want HS256, HS384 or HS512", name)
		case a.kind == kindHMAC && len(c.Secret) > 0 && len(c.Secret) < a.hash.Size():
			return fmt.Errorf("jwt: Secret of %d bytes with %s: want at least %d random ones",
				len(c.Secret), name, a.hash.Size())
		}
	}
	return nil
}

func checkURL(text string, allowHTTP bool) error {
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return fmt.Errorf("jwt: JWKSURL: %w", err)
	}
	switch {
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("jwt: JWKSURL %q: want a URL such as https://login.example.com/jwks.json", u.Redacted())
	case u.Scheme == "http" && !allowHTTP && !isLoopback(u.Hostname()):
		return fmt.Errorf("jwt: JWKSURL %q: anyone on the network path could replace the keys: want https, or AllowHTTP",
			u.Redacted())
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
