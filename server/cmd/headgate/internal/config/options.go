package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/gateway"
)

// validateSections checks the sections of the file. For some, it calls the Validate of the package that they configure.
func (c *Config) validateSections() error {
	if err := c.ResponseFields().Validate(); err != nil {
		return c.sectionError("responses", err, reflect.TypeFor[Responses]())
	}
	if c.Redis.Nodes < 0 {
		return c.problemAt("redis.nodes", "", "at least 1")
	}
	if c.Redis != (Redis{}) && c.Store == StoreMemory {
		return c.problemAt("redis", "settings of Redis with store: memory", "a store in Redis, or none of these")
	}
	if err := c.validateFleet(); err != nil {
		return err
	}
	if err := c.validateRulesService(); err != nil {
		return err
	}
	if err := c.validateService(); err != nil {
		return err
	}
	id := c.IdentityConfig(nil, nil)
	if c.Identity.JWT != nil {
		id.Tokens = placeholderVerifier{}
	}
	if err := id.Validate(); err != nil {
		return c.sectionError("identity", err, reflect.TypeFor[Identity]())
	}
	return nil
}

// A placeholderVerifier is used to validate the section identity before the real verifier exists.
type placeholderVerifier struct{}

func (placeholderVerifier) Verify(string) (identity.Claims, error) {
	return nil, errors.New("no tokens")
}

// IdentityConfig returns the configuration of package identity. It keys hashes of clients with secret, and verifies
// bearer tokens with tokens.
func (c *Config) IdentityConfig(secret []byte, tokens identity.TokenVerifier) identity.Config {
	i := c.Identity
	return identity.Config{
		TrustedProxies: c.TrustedProxies, Tokens: tokens, Secret: secret, Region: c.Region, Namespace: c.Namespace,
		Hops: i.Hops, ForwardingHeader: i.ForwardingHeader, IPv4Prefix: i.IPv4Prefix, IPv6Prefix: i.IPv6Prefix,
		APIKeyHeader: cmp.Or(i.APIKeyHeader, identity.DefaultAPIKeyHeader), // even if APIKeyQuery is set, when identity has no default
		APIKeyQuery:  i.APIKeyQuery, UserFrom: i.UserFrom, UserHeader: i.UserHeader,
		Paths: identity.PathRules(i.Paths), Repeated: i.Repeated,
		MaxCookies: int(i.MaxCookies), MaxQuery: int(i.MaxQuery), MaxPath: int(i.MaxPath),
	}
}

// JWTConfig returns the configuration of package jwt, or nil if no tokens are accepted.
func (c *Config) JWTConfig() (*jwt.Config, error) {
	j := c.Identity.JWT
	if j == nil {
		return nil, nil
	}
	result := &jwt.Config{
		JWKSURL: j.JWKSURL, JWKSFile: j.JWKSFile, Unverified: j.Unverified, Algorithms: j.Algorithms, Issuer: j.Issuer,
		Audience: j.Audience, Leeway: j.Leeway, NoExpiry: j.NoExpiry, MaxToken: int(j.MaxToken), Refresh: j.Refresh,
		MaxStale: j.MaxStale, AllowHTTP: j.AllowHTTP,
	}
	if j.SecretFile != "" {
		secret, err := readSecret(j.SecretFile)
		if err != nil {
			return nil, c.problemAt("identity.jwt.secret_file", err.Error(), "a file with the secret")
		}
		result.Secret = secret
	}
	if err := result.Validate(); err != nil {
		err = errors.New(replaceWord(err.Error(), "Secret", "secret_file"))
		return nil, c.sectionError("identity.jwt", err, reflect.TypeFor[JWT]())
	}
	return result, nil
}

// ResponseFields returns the configuration of the response headers that describe limits.
func (c *Config) ResponseFields() httplimit.Fields {
	return httplimit.Fields{
		NoRateLimit: c.Responses.NoRateLimit, NoXRateLimit: c.Responses.NoXRateLimit,
		ResetDelta: bool(c.Responses.ResetFormat), Jitter: c.Responses.Jitter,
	}
}

// MemoryOptions returns the options of the memory store.
func (c *Config) MemoryOptions() memstore.Options {
	return memstore.Options{MaxBytes: int64(c.Memory.MaxBytes)}
}

// RedisOptions returns the options of the Redis store.
func (c *Config) RedisOptions(secret []byte) redisstore.Options {
	return redisstore.Options{Prefix: c.Redis.Prefix, Secret: secret, ReadReplicas: c.Redis.ReadReplicas}
}

// GuardOptions returns the options of the guard in front of Redis.
func (c *Config) GuardOptions() guard.Options {
	o := guard.Options{Deadline: c.Redis.Deadline, DenyCache: c.Redis.DenyCache.Duration()}
	if nodes := c.Redis.Nodes; nodes > 0 {
		o.Nodes = func() int { return nodes }
	}
	return o
}

// GatewayConfig returns the configuration of the gateway. Requests that match no route go to the setting upstream. If
// there are neither routes nor that setting, demoURL is the upstream. The caller must set the fields that have no
// setting.
func (c *Config) GatewayConfig(demoURL string) (gateway.Config, error) {
	var result gateway.Config
	copyFields(&result, c.Gateway)
	if len(result.Listeners) == 0 {
		result.Listeners = []gateway.Listener{{Address: c.GatewayAddr}}
	}
	upstream := c.Upstream
	if upstream == "" && len(result.Routes) == 0 {
		upstream = demoURL
	}
	if upstream != "" {
		result.Routes = append(result.Routes, gateway.Route{Upstreams: []gateway.Upstream{{URL: upstream}}})
	}
	if result.OnlyFromProxies == nil {
		result.OnlyFromProxies = c.onlyFromProxies()
	}
	return result, c.explainGateway(result.Validate(), len(c.Gateway.Routes))
}

// GatewayOff reports whether the gateway is off.
func (c *Config) GatewayOff() bool { return c.GatewayAddr == Off && len(c.Gateway.Listeners) == 0 }

// NeedsDemo reports whether the gateway is on and has no upstream.
func (c *Config) NeedsDemo() bool {
	return !c.GatewayOff() && c.Upstream == "" && len(c.Gateway.Routes) == 0
}

// WantsDemoTraffic reports whether the node should send requests of simulated clients to the built-in service.
func (c *Config) WantsDemoTraffic() bool {
	return c.NeedsDemo() && !slices.Contains(offWords, c.DemoTraffic)
}

// The values of demo_traffic.
var (
	onWords  = []string{"on", "true"}
	offWords = []string{Off, "false"}
)

func (c *Config) validateDemoTraffic() error {
	switch {
	case c.DemoTraffic == "" || slices.Contains(offWords, c.DemoTraffic):
		return nil
	case !slices.Contains(onWords, c.DemoTraffic):
		return invalidValue(c.DemoTraffic, "on or off")
	case !c.NeedsDemo():
		return &valueError{"on without the built-in service", "off, or no upstream: it is never sent to your service"}
	}
	return nil
}

// onlyFromProxies returns the headers that only proxies may send: the gateway's defaults, and the headers with the user
// and the client's address.
func (c *Config) onlyFromProxies() []string {
	list := gateway.DefaultOnlyFromProxies()
	if from := c.Identity.UserFrom; len(from) == 0 || slices.Contains(from, identity.UserFromHeader) {
		list = append(list, cmp.Or(c.Identity.UserHeader, identity.DefaultUserHeader))
	}
	if h := c.Identity.ForwardingHeader; h != "" {
		list = append(list, h)
	}
	return list
}

// joinedErrors is the interface of errors that errors.Join returns.
type joinedErrors interface{ Unwrap() []error }

// explainGateway adds positions in the file to an error about the gateway's configuration. The route with the index
// upstreamIndex is not from the file, but from the setting upstream.
func (c *Config) explainGateway(err error, upstreamIndex int) error {
	if err == nil {
		return nil
	}
	upstreamRoute := fmt.Sprintf("Routes[%d]", upstreamIndex)
	list := []error{err}
	if joined, ok := err.(joinedErrors); ok {
		list = joined.Unwrap()
	}
	var problems []source.Problem
	for _, err := range list {
		var e *gateway.ConfigError
		if !errors.As(err, &e) {
			return err
		}
		if strings.HasPrefix(e.Field, upstreamRoute) {
			return fmt.Errorf("%s: %s: want %s", c.Origin("upstream"), e.Value, e.Want)
		}
		path, ok := fieldPath(reflect.TypeFor[Gateway](), e.Field)
		if !ok || c.file == nil {
			return err
		}
		p := source.Problem{Path: "gateway." + path, Value: e.Value, Want: useFieldNames(e.Want, reflect.TypeFor[Gateway]())}
		p.Line, p.Column = c.file.parsed.Locate(p.Path)
		problems = append(problems, p)
	}
	return c.file.parsed.Error(problems, 0, ErrInvalid)
}
