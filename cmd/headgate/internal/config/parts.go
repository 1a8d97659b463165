package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/guard"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
	"github.com/headgate/headgate/internal/secretfile"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules/source"
)

const (
	minSecret = 16
	maxSecret = 4096
)

// readSecret reads a secret from a file. A line's end after it is not part of it.
func readSecret(path string) ([]byte, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) < minSecret || len(data) > maxSecret {
		return nil, fmt.Errorf("%s has %d bytes: want %d to %d, better 32 by chance", path, len(data), minSecret, maxSecret)
	}
	return data, nil
}

// Secret returns the secret of the fleet, nil if there is none.
func (c *Config) Secret() ([]byte, error) {
	if c.KeySecretFile == "" {
		return nil, nil
	}
	secret, err := readSecret(c.KeySecretFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("key-secret-file"), err)
	}
	return secret, nil
}

// checkSections has the packages that sections are for look at them.
func (c *Config) checkSections() error {
	if err := c.Fields().Validate(); err != nil {
		return c.about("answers", err, reflect.TypeFor[Answers]())
	}
	if c.Redis.Nodes < 0 {
		return c.at("redis.nodes", "", "at least 1")
	}
	if c.Redis != (Redis{}) && c.Store == StoreMemory {
		return c.at("redis", "settings of Redis with store: memory", "a store in Redis, or none of these")
	}
	if err := c.checkFleet(); err != nil {
		return err
	}
	if err := c.checkRulesService(); err != nil {
		return err
	}
	if err := c.checkService(); err != nil {
		return err
	}
	id := c.IdentityConfig(nil, nil)
	if c.Identity.JWT != nil {
		id.Tokens = believer{}
	}
	if err := id.Validate(); err != nil {
		return c.about("identity", err, reflect.TypeFor[Identity]())
	}
	return nil
}

// A believer stands for a verifier of tokens that is not made yet.
type believer struct{}

func (believer) Verify(string) (identity.Claims, error) { return nil, errors.New("no tokens") }

// IdentityConfig returns who is believed what.
func (c *Config) IdentityConfig(secret []byte, tokens identity.TokenVerifier) identity.Config {
	i := c.Identity
	made := identity.Config{
		TrustedProxies: c.TrustedProxies, Tokens: tokens, Secret: secret, Region: c.Region, Namespace: c.Namespace,
		Hops: i.Hops, ForwardingHeader: i.ForwardingHeader, IPv4Prefix: i.IPv4Prefix, IPv6Prefix: i.IPv6Prefix,
		APIKeyHeader: cmp.Or(i.APIKeyHeader, identity.DefaultAPIKeyHeader), // also if there is an APIKeyQuery
		APIKeyQuery:  i.APIKeyQuery, UserHeader: i.UserHeader,
		Paths: identity.PathRules{
			EncodedSlash: identity.EncodedSlash(i.Paths.EncodedSlash), KeepDoubleSlashes: i.Paths.KeepDoubleSlashes,
			Parameters: identity.Parameters(i.Paths.Parameters),
		},
		Repeated:   identity.Repeated(i.Repeated),
		MaxCookies: int(i.MaxCookies), MaxQuery: int(i.MaxQuery), MaxPath: int(i.MaxPath),
	}
	for _, s := range i.UserFrom {
		made.UserFrom = append(made.UserFrom, identity.UserSource(s))
	}
	return made
}

// JWTConfig returns which tokens are believed, nil if there are none.
func (c *Config) JWTConfig() (*jwt.Config, error) {
	j := c.Identity.JWT
	if j == nil {
		return nil, nil
	}
	made := &jwt.Config{
		JWKSURL: j.JWKSURL, JWKSFile: j.JWKSFile, Unverified: j.Unverified, Algorithms: j.Algorithms, Issuer: j.Issuer,
		Audience: j.Audience, Leeway: j.Leeway, NoExpiry: j.NoExpiry, MaxToken: int(j.MaxToken), Refresh: j.Refresh,
		MaxStale: j.MaxStale, AllowHTTP: j.AllowHTTP,
	}
	if j.SecretFile != "" {
		secret, err := readSecret(j.SecretFile)
		if err != nil {
			return nil, c.at("identity.jwt.secret_file", err.Error(), "a file with the secret")
		}
		made.Secret = secret
	}
	if err := made.Validate(); err != nil {
		err = errors.New(replaceWord(err.Error(), "Secret", "secret_file"))
		return nil, c.about("identity.jwt", err, reflect.TypeFor[JWT]())
	}
	return made, nil
}

// Fields returns which header fields tell clients of their limits.
func (c *Config) Fields() httplimit.Fields {
	return httplimit.Fields{
		NoRateLimit: c.Answers.NoRateLimit, NoXRateLimit: c.Answers.NoXRateLimit,
		ResetDelta: bool(c.Answers.ResetDelta), Jitter: c.Answers.Jitter,
	}
}

// MemoryOptions returns how to count in this process.
func (c *Config) MemoryOptions() memstore.Options {
	return memstore.Options{MaxBytes: int64(c.Memory.MaxBytes)}
}

// RedisOptions returns how to count in Redis.
func (c *Config) RedisOptions(secret []byte) redisstore.Options {
	return redisstore.Options{Prefix: c.Redis.Prefix, Secret: secret, ReadReplicas: c.Redis.ReadReplicas}
}

// GuardOptions returns what stands before Redis.
func (c *Config) GuardOptions() guard.Options {
	o := guard.Options{Deadline: c.Redis.Deadline}
	switch c.Redis.DenyCache {
	case SpanOff:
		o.DenyCache = -1
	default:
		o.DenyCache = c.Redis.DenyCache.Duration()
	}
	if nodes := c.Redis.Nodes; nodes > 0 {
		o.Nodes = func() int { return nodes }
	}
	return o
}

// GatewayConfig returns how the gateway is to run: with the upstream that is given for what no route is for, or with
// another if neither an upstream nor a route is given. The caller adds what is made of other parts.
func (c *Config) GatewayConfig(other string) (gateway.Config, error) {
	var made gateway.Config
	adopt(&made, c.Gateway)
	if len(made.Listeners) == 0 {
		made.Listeners = []gateway.Listener{{Address: c.GatewayAddr}}
	}
	upstream := c.Upstream
	if upstream == "" && len(made.Routes) == 0 {
		upstream = other
	}
	if upstream != "" {
		made.Routes = append(made.Routes, gateway.Route{Upstreams: []gateway.Upstream{{URL: upstream}}})
	}
	if made.OnlyFromProxies == nil {
		made.OnlyFromProxies = c.onlyFromProxies()
	}
	return made, c.explainGateway(made.Validate(), len(c.Gateway.Routes))
}

// GatewayOff reports whether no requests come through here.
func (c *Config) GatewayOff() bool { return c.GatewayAddr == Off && len(c.Gateway.Listeners) == 0 }

// NeedsDemo reports whether requests come, and there is nobody to send them to.
func (c *Config) NeedsDemo() bool {
	return !c.GatewayOff() && c.Upstream == "" && len(c.Gateway.Routes) == 0
}

// onlyFromProxies returns the headers that only proxies may send: those that the gateway keeps from clients anyway, and
// those in which a proxy says who the client is.
func (c *Config) onlyFromProxies() []string {
	list := gateway.DefaultOnlyFromProxies()
	if from := c.Identity.UserFrom; len(from) == 0 || slices.Contains(from, UserSource(identity.UserFromHeader)) {
		user := c.Identity.UserHeader
		if user == "" {
			user = identity.DefaultUserHeader
		}
		list = append(list, user)
	}
	if h := c.Identity.ForwardingHeader; h != "" {
		list = append(list, h)
	}
	return list
}

// joinedErrors is an error of errors.Join.
type joinedErrors interface{ Unwrap() []error }

// explainGateway says where in the file stands what is wrong with the gateway's configuration. Routes beyond those of the
// file are of the setting upstream.
func (c *Config) explainGateway(err error, routes int) error {
	if err == nil {
		return nil
	}
	beyond := fmt.Sprintf("Routes[%d]", routes)
	list := []error{err}
	if joined, ok := err.(joinedErrors); ok {
		list = joined.Unwrap()
	}
	var found []source.Problem
	for _, err := range list {
		var e *gateway.ConfigError
		if !errors.As(err, &e) {
			return err
		}
		if len(e.Field) >= len(beyond) && e.Field[:len(beyond)] == beyond {
			return fmt.Errorf("%s: %s: want %s", c.Where("upstream"), e.Value, e.Want)
		}
		path, ok := written(reflect.TypeFor[Gateway](), e.Field)
		if !ok || c.file == nil {
			return err
		}
		p := source.Problem{Path: "gateway." + path, Value: e.Value, Want: renamed(e.Want, reflect.TypeFor[Gateway]())}
		p.Line, p.Column = c.file.source.Locate(p.Path)
		found = append(found, p)
	}
	return c.file.source.Error(found, 0, ErrInvalid)
}
