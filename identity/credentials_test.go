package identity

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

func basic(userpass string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(userpass))
}

// stubTokens believes tokens that are in it.
type stubTokens map[string]*stubClaims

type stubClaims struct {
	claims   map[string]string
	verified bool
}

var errStub = errors.New("never heard of it")

func (s stubTokens) Verify(token string) (Claims, error) {
	if c, ok := s[token]; ok {
		return c, nil
	}
	return nil, errStub
}

func (c *stubClaims) Claim(name string) (string, bool) { v, ok := c.claims[name]; return v, ok }
func (c *stubClaims) Verified() bool                   { return c.verified }

var tokens = stubTokens{
	"good":    {map[string]string{"sub": "carol", "tenant": "acme", "long": strings.Repeat("x", 2000)}, true},
	"trusted": {map[string]string{"sub": "mallory", "tenant": "acme"}, false},
	"nobody":  {map[string]string{"tenant": "acme"}, true},
}

func TestUser(t *testing.T) {
	for _, tt := range []struct {
		name    string
		config  Config
		remote  string
		headers []string
		want    string
	}{
		{"nobody", Config{}, "192.0.2.1:1", nil, "-"},
		{"Basic", Config{}, "192.0.2.1:1", []string{basic("alice:secret")}, "alice"},
		{"Basic without a password", Config{}, "192.0.2.1:1", []string{basic("alice:")}, "alice"},
		{"a colon in the password", Config{}, "192.0.2.1:1", []string{basic("alice:a:b")}, "alice"},
		{"the scheme in other letters", Config{}, "192.0.2.1:1", []string{strings.Replace(basic("alice:x"), "Basic ", "bASIC   ", 1)}, "alice"},
		{"no user", Config{}, "192.0.2.1:1", []string{basic(":secret")}, "-"},
		{"no colon", Config{}, "192.0.2.1:1", []string{basic("alice")}, "alice"},
		{"no base64", Config{}, "192.0.2.1:1", []string{"Authorization: Basic !!!"}, "-"},
		{"no padding", Config{}, "192.0.2.1:1", []string{"Authorization: Basic YWxpY2U6eA"}, "alice"},
		{"half the padding", Config{}, "192.0.2.1:1", []string{"Authorization: Basic YWxpY2U6eA="}, "alice"},
		{"after a tab", Config{}, "192.0.2.1:1", []string{"Authorization: Basic\tYWxpY2U6eA=="}, "alice"},
		{"the other alphabet", Config{}, "192.0.2.1:1", []string{"Authorization: Basic YWxpY2U6_-8"}, "-"},
		{"more than base64", Config{}, "192.0.2.1:1", []string{"Authorization: Basic YWxpY2U6eA== x"}, "-"},
		{"white space around it", Config{}, "192.0.2.1:1", []string{basic(" alice\u00a0:x")}, "alice"},
		{"a control character", Config{}, "192.0.2.1:1", []string{basic("ali\x00ce:x")}, "-"},
		{"ISO 8859-1", Config{}, "192.0.2.1:1", []string{basic("\xe4lice:x")}, "älice"},
		{"no credentials", Config{}, "192.0.2.1:1", []string{"Authorization: Basic"}, "-"},
		{"another scheme", Config{}, "192.0.2.1:1", []string{"Authorization: Basically YWxpY2U6eA=="}, "-"},
		{"too long", Config{}, "192.0.2.1:1", []string{basic(strings.Repeat("a", maxInputBytes) + ":x")}, "-"},
		{"UTF-8", Config{}, "192.0.2.1:1", []string{basic("älice:x")}, "älice"},
		{"twice the same", Config{}, "192.0.2.1:1", []string{basic("alice:x"), basic("alice:x")}, "alice"},
		{"twice, and not the same", Config{}, "192.0.2.1:1", []string{basic("alice:x"), basic("bob:x")}, "-"},
		{"a verified token", Config{Tokens: tokens}, "192.0.2.1:1", []string{"Authorization: Bearer good"}, "carol"},
		{"a token without sub", Config{Tokens: tokens}, "192.0.2.1:1", []string{"Authorization: Bearer nobody"}, "-"},
		{"a token that was not verified", Config{Tokens: tokens}, "192.0.2.1:1", []string{"Authorization: Bearer trusted"}, "-"},
		{"a bad token", Config{Tokens: tokens}, "192.0.2.1:1", []string{"Authorization: Bearer bad"}, "-"},
		{"a token and nobody to verify it", Config{}, "192.0.2.1:1", []string{"Authorization: Bearer good"}, "-"},
		{"the header, from a client", by("X-Forwarded-For"), "192.0.2.1:1", []string{"X-User-ID: alice"}, "-"},
		{"the header, and nobody is trusted", Config{}, "10.0.0.1:1", []string{"X-User-ID: alice"}, "-"},
		{"the header, from a proxy", by("X-Forwarded-For"), "10.0.0.1:1", []string{"X-User-ID: alice"}, "alice"},
		{"the header, from one of Hops", Config{Hops: 1}, "10.0.0.1:1", []string{"X-User-ID: alice"}, "alice"},
		{"a client's line and a proxy's", by("X-Forwarded-For"), "10.0.0.1:1", []string{"X-User-ID: alice", "X-User-ID: bob"}, "-"},
		{"another header", Config{Hops: 1, UserHeader: "x-auth-user"}, "10.0.0.1:1", []string{"X-User-ID: alice", "X-Auth-User: bob"}, "bob"},
		{"a bad token and a header", Config{Hops: 1, Tokens: tokens}, "10.0.0.1:1", []string{"Authorization: Bearer bad", "X-User-ID: alice"}, "alice"},
		{"a token before a header", Config{Hops: 1, Tokens: tokens}, "10.0.0.1:1", []string{"Authorization: Bearer good", "X-User-ID: alice"}, "carol"},
		{"Basic before a header", Config{Hops: 1}, "10.0.0.1:1", []string{basic("alice:x"), "X-User-ID: bob"}, "alice"},
		{"unless told otherwise", Config{Hops: 1, UserFrom: []UserSource{UserFromHeader}}, "10.0.0.1:1", []string{basic("alice:x"), "X-User-ID: bob"}, "bob"},
		{"no header then", Config{Hops: 1, UserFrom: []UserSource{UserFromHeader, UserFromBasic}}, "10.0.0.1:1", []string{basic("alice:x")}, "alice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := get(t, newID(t, withBasic(tt.config)), request(tt.remote, "/", tt.headers...), "user"); got != tt.want {
				t.Errorf("user = %s, want %s", got, tt.want)
			}
		})
	}
	if got := get(t, newID(t, withBasic(Config{})), request("192.0.2.1:1", "/", basic(strings.Repeat("a", 1025)+":x")), "user"); len(got) != 24 {
		t.Errorf("a long user is %q, want its hash", got)
	}
}

func TestAPIKey(t *testing.T) {
	both := Config{APIKeyHeader: "X-Key", APIKeyQuery: "key"}
	for _, tt := range []struct {
		name    string
		config  Config
		target  string
		headers []string
		want    string
		bad     string
	}{
		{"none", Config{}, "/", nil, "-", ""},
		{"by default", Config{}, "/", []string{"X-API-Key: k1"}, "k1", ""},
		{"not in the query by default", Config{}, "/?api_key=k1&X-API-Key=k1", nil, "-", ""},
		{"empty", Config{}, "/", []string{"X-API-Key: "}, "-", ""},
		{"twice", Config{}, "/", []string{"X-API-Key: k1", "X-API-Key: k1"}, "k1", ""},
		{"two", Config{}, "/", []string{"X-API-Key: k1", "X-API-Key: k2"}, "-", "API key"},
		{"another header", both, "/", []string{"X-API-Key: k1", "X-Key: k2"}, "k2", ""},
		{"the query", both, "/?key=k%2D1", nil, "k-1", ""},
		{"two words", both, "/?key=k%201", nil, "-", "API key"},
		{"a NUL", both, "/?key=k1%00", nil, "-", "API key"},
		{"a list", Config{}, "/", []string{"X-API-Key: k1, k2"}, "-", "API key"},
		{"in quotes", Config{}, "/", []string{`X-API-Key: "k1"`}, "-", "API key"},
		{"a space of ISO 8859-1", Config{}, "/", []string{"X-API-Key: k1\xa0"}, "-", "API key"},
		{"a space of UTF-8", Config{}, "/", []string{"X-API-Key: k1\u2009."}, "-", "API key"},
		{"both the same", both, "/?key=k1", []string{"X-Key: k1"}, "k1", ""},
		{"both and not the same", both, "/?key=k1", []string{"X-Key: k2"}, "-", "API key"},
		{"two in the query", both, "/?key=k1&key=k2", nil, "-", "API key"},
		{"an empty one and one", both, "/?key=&key=k2", []string{"X-Key: "}, "k2", ""},
		{"the query alone", Config{APIKeyQuery: "key"}, "/?key=k1", []string{"X-API-Key: k2"}, "k1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, r := newID(t, tt.config), request("192.0.2.1:1", tt.target, tt.headers...)
			if got, bad := get(t, id, r, "api_key"), part(t, id, r); got != tt.want || bad != tt.bad {
				t.Errorf("api_key = %s, malformed %q, want %s and %q", got, bad, tt.want, tt.bad)
			}
		})
	}
}

func TestBearerIsAHashThatOnlyTheSecretTells(t *testing.T) {
	id, other := newID(t, Config{}), newID(t, Config{Secret: []byte("another secret of some length")})
	r := request("192.0.2.1:1", "/", "Authorization: bearer  tok.en.x")
	got := get(t, id, r, "bearer")
	if len(got) != 24 || strings.Trim(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("bearer = %q, want 24 characters of base64url", got)
	}
	if want := id.BearerHash("tok.en.x"); got != want {
		t.Errorf("bearer = %s, want BearerHash, %s", got, want)
	}
	if get(t, other, r, "bearer") == got || id.BearerHash("tok.en.y") == got || id.hasher.sum(hashedValue, "tok.en.x") == got {
		t.Error("hashes of other secrets, tokens or things are the same")
	}
	for _, header := range []string{"Authorization: Bearer", "Authorization: Bearer ", "Authorization: Basic YWxpY2U6eA==", "Authorization: BearerX t", "X-A: b"} {
		if got := get(t, id, request("192.0.2.1:1", "/", header), "bearer"); got != "-" {
			t.Errorf("%s: bearer = %s, want none", header, got)
		}
	}
	twice := request("192.0.2.1:1", "/", "Authorization: Bearer a", "Authorization: Bearer b")
	if got, bad := get(t, id, twice, "bearer"), part(t, id, twice); got != "-" || bad != "header Authorization" {
		t.Errorf("two tokens: bearer = %s, malformed %q, want none and the header", got, bad)
	}
	if got := id.BearerHash(strings.Repeat("x", maxInputBytes+1)); got != "" {
		t.Errorf("a token beyond all bounds hashes to %q, want nothing", got)
	}
}

func TestAuthorizationIsOneCredential(t *testing.T) {
	id := newID(t, Config{})
	const token = "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXI"
	for value, bad := range map[string]bool{
		"":                                     false,
		"Bearer":                               false,
		"Bearer " + token:                      false,
		"BEARER\t " + token + "=":              false,
		"Bearer 1|opaque:token~":               false,
		"Basic YWxpY2U6eA":                     false,
		"Token token=x":                        false,
		"key-without-scheme=":                  false,
		`Digest username="a", realm="b"`:       false,
		"AWS4-HMAC-SHA256 Credential=a/b, x=y": false,
		"Bearer a b":                           true,
		"Bearer a,b":                           true,
		"Bearer a;b":                           true,
		"Bearer token=a":                       true,
		"Bearer ==":                            true,
		"Bearer a\xa0":                         true,
		"Bearer\xa0a":                          true,
		"Bearer:a":                             true,
		"Bearerxa":                             true,
		"\xa0Bearer a":                         true,
		"x Bearer a":                           true,
		"xbasic\tYWxpY2U6eA":                   true,
		"Basic YWxpY2U6e":                      true,
		"Basic YWxp!Y2U6eA==":                  true,
		"Basic YWxpY2U6\r\neA==":               true,
		"Basic YQBiOmM":                        true,
		"Bearer " + token + "!":                true,
		"Bearer " + token[:len(token)-1] + "J": true, // which decodes to the same
		"Bearer " + token + "AA":               true, // too long by one
		"Bearer " + token + ".x":               true,
	} {
		r := request("192.0.2.1:1", "/")
		r.Header["Authorization"] = []string{value}
		want := ""
		if bad {
			want = "header Authorization"
		}
		if got := part(t, id, r); got != want {
			t.Errorf("Authorization: %q: malformed %q, want %q", value, got, want)
		}
		if bad {
			for _, name := range []string{"user", "bearer", "header.authorization"} {
				if got := get(t, id, r, name); got != "-" {
					t.Errorf("Authorization: %q: %s = %s, want none", value, name, got)
				}
			}
		}
	}
}

func TestClaims(t *testing.T) {
	id := newID(t, Config{Tokens: tokens})
	for _, tt := range []struct{ token, claim, want string }{
		{"good", "jwt.tenant", "acme"},
		{"good", "jwt.none", "-"},
		{"trusted", "jwt.tenant", "acme"},
		{"trusted", "jwt.sub", "mallory"},
		{"bad", "jwt.tenant", "-"},
	} {
		r := request("192.0.2.1:1", "/", "Authorization: Bearer "+tt.token)
		if got := get(t, id, r, tt.claim); got != tt.want {
			t.Errorf("%s of %s = %s, want %s", tt.claim, tt.token, got, tt.want)
		}
	}
	if got := get(t, id, request("192.0.2.1:1", "/", "Authorization: Bearer good"), "jwt.long"); len(got) != 24 {
		t.Errorf("a long claim is %q, want its hash", got)
	}
	var a Attributes
	id.Read(request("192.0.2.1:1", "/", "Authorization: Bearer bad"), &a)
	if err := a.TokenError(); !errors.Is(err, errStub) {
		t.Errorf("TokenError() = %v, want %v", err, errStub)
	}
	id.Read(request("192.0.2.1:1", "/"), &a)
	if err := a.TokenError(); err != nil {
		t.Errorf("no token: TokenError() = %v, want none", err)
	}
}
