package jwt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Who does not have the secret makes no token.
func FuzzVerify(f *testing.F) {
	i := theIssuer()
	genuine := i.token("ES256")
	for _, seed := range []string{
		i.token("HS256"), genuine, rfcHS256, rfcRS256, rfcES256, rfcEdDSA, "..", "a.b.c", "", encode([]byte(`{"alg":"none"}`)) + ".e30.",
		sign("HS256", i.secret, `{"alg":"HS256"}`, `{"exp":1e999}`), sign("HS256", i.secret, `{"alg":"HS256","crit":[]}`, good),
		sign("HS256", i.secret, `{"alg":"HS256"}`, `{"exp":1800000600,"a":{"b":["c"]}}`),
	} {
		f.Add(seed)
	}
	secret, public := verifier(f, Config{Secret: i.secret}), verifier(f, Config{})
	unverified := verifier(f, Config{Unverified: true, NoExpiry: true})
	f.Fuzz(func(t *testing.T, token string) {
		if c, err := secret.Verify(token); err == nil {
			dot := strings.LastIndexByte(token, '.')
			mac := hmac.New(sha256.New, i.secret)
			mac.Write([]byte(token[:dot]))
			if encode(mac.Sum(nil)) != token[dot+1:] || !c.Verified() {
				t.Fatalf("%q is believed, and its signature is wrong", token)
			}
		} else if c != nil || err.Error() == "" {
			t.Fatalf("%q: claims %v with error %v", token, c, err)
		}
		if c, err := public.Verify(token); err == nil && token != genuine {
			t.Fatalf("%q is believed: %v", token, c)
		}
		if c, err := unverified.Verify(token); err == nil {
			if c.Verified() {
				t.Fatal("claims are verified that are not")
			}
			for _, name := range []string{"sub", "a.b", ".", "exp", ""} {
				if value, ok := c.Claim(name); ok && value == "" {
					t.Fatalf("claim %q is there and empty", name)
				}
			}
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add(theIssuer().jwks())
	for _, seed := range []string{rfcRSA, rfcEC, rfcOKP, `{"kty":"oct","k":"` + rfcSecret + `"}`, `{}`, `null`, `{"kty":"RSA","n":"","e":""}`} {
		f.Add([]byte(`{"keys":[` + seed + `]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := parseKeys(data, true)
		if err != nil {
			return
		}
		if len(set.keys) == 0 || !json.Valid(data) {
			t.Fatalf("%q: %v", data, set)
		}
		v := &Verifier{config: Config{MaxToken: DefaultMaxToken, Now: func() time.Time { return now }}, fixedKeys: set}
		for alg := range algorithms {
			v.config.Algorithms = []string{alg}
			text := encode([]byte(`{"alg":"`+alg+`"}`)) + "." + encode([]byte(good))
			for _, size := range []int{0, 32, 64, 96, 132, 256} {
				if c, err := v.Verify(text + "." + encode(make([]byte, size))); err == nil {
					t.Fatalf("%q: a signature of %d zeros is believed: %v", data, size, c)
				}
			}
		}
	})
}
