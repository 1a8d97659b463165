package jwt

import (
	"strings"
	"testing"
	"time"
)

func TestConfigIsRefusedWithWhatWouldBeRight(t *testing.T) {
	const url = "https://login.example/jwks.json"
	secret := []byte(strings.Repeat("x", 32))
	for _, tt := range []struct {
		config Config
		want   []string
	}{
		{Config{}, []string{"0 of JWKSURL", "want one"}},
		{Config{JWKSURL: url, Secret: secret}, []string{"2 of JWKSURL", "want one"}},
		{Config{Secret: secret, Unverified: true}, []string{"2 of"}},
		{Config{JWKSURL: "login.example"}, []string{"login.example", "want a URL such as https://"}},
		{Config{JWKSURL: "ftp://login.example/"}, []string{"want a URL such as https://"}},
		{Config{JWKSURL: "https://a b/"}, []string{"JWKSURL"}},
		{Config{JWKSURL: "http://user:hunter2@login.example/"}, []string{"want https, or AllowHTTP"}},
		{Config{JWKSURL: url, Algorithms: []string{"none"}}, []string{`"none"`, "RS256"}},
		{Config{JWKSURL: url, Algorithms: []string{"rs256"}}, []string{`"rs256"`}},
		{Config{JWKSURL: url, Algorithms: []string{"RS256", "HS256"}}, []string{"HS256 with JWKSURL", "not secret"}},
		{Config{Secret: secret, Algorithms: []string{"RS256"}}, []string{"RS256 with Secret", "HS256"}},
		{Config{Secret: secret[:31]}, []string{"Secret of 31 bytes", "at least 32"}},
		{Config{Secret: secret, Algorithms: []string{"HS512"}}, []string{"at least 64"}},
		{Config{Unverified: true, Leeway: -1}, []string{"Leeway -1ns"}},
		{Config{Unverified: true, Leeway: time.Hour}, []string{"Leeway 1h0m0s", "5m0s"}},
		{Config{JWKSURL: url, Refresh: time.Millisecond}, []string{"Refresh 1ms", "1s"}},
		{Config{JWKSURL: url, MaxStale: -1}, []string{"MaxStale"}},
		{Config{Unverified: true, MaxToken: 1 << 20}, []string{"MaxToken 1048576", "65536"}},
	} {
		err := tt.config.Validate()
		if err == nil {
			t.Errorf("%+v: no error, want %q in one", tt.config, tt.want)
			continue
		}
		for _, want := range append(tt.want, "jwt: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q, want %q in it", err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "xxxxxxxxxx") {
			t.Errorf("the error tells a secret: %v", err)
		}
		if _, again := New(tt.config); again == nil || again.Error() != err.Error() {
			t.Errorf("New: error %v, want that of Validate: %v", again, err)
		}
	}
	for _, c := range []Config{
		{JWKSURL: url},
		{JWKSURL: "http://localhost:8080/jwks"},
		{JWKSURL: "http://127.0.0.1:8080/jwks"},
		{JWKSURL: "http://[::1]/jwks"},
		{JWKSURL: "http://keycloak:8080/jwks", AllowHTTP: true},
		{JWKSFile: "x", Algorithms: []string{"HS256", "RS256"}},
		{Secret: secret},
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestKeysThatAreNoUseAreSkipped(t *testing.T) {
	b := strings.Repeat
	for name, key := range map[string]string{
		"a short RSA key":         `{"kty":"RSA","n":"` + b("A", 128) + `w","e":"AQAB"}`,
		"a huge RSA key":          `{"kty":"RSA","n":"` + b("_", 1400) + `","e":"AQAB"}`,
		"an even modulus":         `{"kty":"RSA","n":"` + b("_", 341) + `g","e":"AQAB"}`,
		"an exponent of 1":        strings.Replace(rfcRSA, "AQAB", "AQ", 1),
		"an even exponent":        strings.Replace(rfcRSA, "AQAB", "BA", 1),
		"a huge exponent":         strings.Replace(rfcRSA, "AQAB", b("_", 8), 1),
		"no exponent":             strings.Replace(rfcRSA, `"e"`, `"f"`, 1),
		"base64 that is none":     strings.Replace(rfcRSA, `"ofg`, `"=fg`, 1),
		"a point off the curve":   strings.Replace(rfcEC, `"f83`, `"g83`, 1),
		"half a point":            strings.Replace(rfcEC, `"x":"f83O`, `"x":"`, 1),
		"the point at infinity":   `{"kty":"EC","crv":"P-256","x":"` + b("A", 43) + `","y":"` + b("A", 43) + `"}`,
		"another curve's point":   strings.Replace(rfcEC, "P-256", "P-384", 1),
		"a curve of coins":        strings.Replace(rfcEC, "P-256", "secp256k1", 1),
		"half an Ed25519":         strings.Replace(rfcOKP, `"11qY`, `"`, 1),
		"X25519":                  strings.Replace(rfcOKP, "Ed25519", "X25519", 1),
		"a key to encrypt":        strings.Replace(rfcEC, `{`, `{"use":"enc",`, 1),
		"a key only to sign":      strings.Replace(rfcEC, `{`, `{"key_ops":["sign"],`, 1),
		"a kind that is none":     strings.Replace(rfcEC, `"EC"`, `"ec"`, 1),
		"not an object":           `"EC"`,
		"a kid that is a number":  strings.Replace(rfcEC, `{`, `{"kid":7,`, 1),
		"a short secret":          `{"kty":"oct","k":"AAAA"}`,
		"a secret that is public": `{"kty":"oct","k":"` + rfcSecret + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if set, err := parseKeys([]byte(`{"keys":[`+key+`]}`), false); err == nil || !strings.Contains(err.Error(), "none of 1 keys") {
				t.Errorf("alone: %v, %v, want an error", set, err)
			}
			if set, err := parseKeys([]byte(`{"keys":[`+key+`,`+rfcEC+`]}`), false); err != nil || len(set.keys) != 1 {
				t.Errorf("with another: %v, %v, want the other", set, err)
			}
		})
	}
}
