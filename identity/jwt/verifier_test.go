package jwt

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
)

func TestEveryAlgorithmVerifiesItsOwnAndNoOther(t *testing.T) {
	i := theIssuer()
	public, secret := verifier(t, Config{}), verifier(t, Config{Secret: i.secret, Algorithms: []string{"HS256", "HS384", "HS512"}})
	for signed, a := range algorithms {
		v := public
		if a.kind == kindHMAC {
			v = secret
		}
		if got := claim(t, v, i.token(signed), "sub"); got != "alice" {
			t.Errorf("%s: sub = %s, want alice", signed, got)
		}
		for said := range algorithms {
			if said == signed || kids[said] == "ed" && kids[signed] == "ed" { // two names of one algorithm
				continue
			}
			token := sign(signed, i.keyFor(signed), fmt.Sprintf(`{"alg":%q}`, said), good)
			for _, v := range []*Verifier{public, secret} {
				if c, err := v.Verify(token); err == nil {
					t.Errorf("signed by %s, said %s: %v is believed", signed, said, c)
				}
			}
		}
	}
}

func TestOnlyAlgorithmsThatAreAllowedVerify(t *testing.T) {
	i, v := theIssuer(), verifier(t, Config{Algorithms: []string{"ES256"}})
	if got := claim(t, v, i.token("ES256"), "sub"); got != "alice" {
		t.Errorf("sub = %s, want alice", got)
	}
	for _, alg := range []string{"RS256", "PS256", "ES384", "EdDSA", "HS256"} {
		if _, err := v.Verify(i.token(alg)); !errors.Is(err, ErrAlgorithm) {
			t.Errorf("%s: error %v, want %v", alg, err, ErrAlgorithm)
		}
	}
}

// Tokens of every bad sort.
func TestTokensThatAreNotBelieved(t *testing.T) {
	i := theIssuer()
	v := verifier(t, Config{Issuer: "https://login.example", Audience: []string{"web", "api"}})
	es256 := func(header, claims string) string { return sign("ES256", i.p256, header, claims) }
	header := `{"alg":"ES256","kid":"p256"}`
	valid := es256(header, good)
	head, rest, _ := strings.Cut(valid, ".")
	body, tail, _ := strings.Cut(rest, ".")
	der := func() string {
		raw := must(decode(tail))
		asn := must(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])}))
		return head + "." + body + "." + encode(asn)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(&i.rsa.PublicKey))})
	none := func(alg string) string {
		return encode([]byte(`{"alg":"`+alg+`"}`)) + "." + encode([]byte(good)) + "."
	}
	with := func(name, value string) string { // good claims, one of them changed
		return es256(header, strings.Replace(good, fmt.Sprintf("%q:", name), fmt.Sprintf("%q:%s,\"was-%s\":", name, value, name), 1))
	}
	without := func(name string) string { return es256(header, strings.Replace(good, `"`+name, `"was-`+name, 1)) }

	if got := claim(t, v, valid, "sub"); got != "alice" {
		t.Fatalf("sub of a good token = %s, want alice", got)
	}
	for _, tt := range []struct {
		name  string
		token string
		want  error
	}{
		{"empty", "", ErrMalformed},
		{"dots", "..", ErrMalformed},
		{"one part", "abc", ErrMalformed},
		{"two parts", head + "." + body, ErrMalformed},
		{"four parts", valid + ".", ErrMalformed},
		{"encrypted: five parts", valid + ".a.b", ErrMalformed},
		{"too long", valid + strings.Repeat("A", DefaultMaxToken), ErrMalformed},
		{"a space", valid + " ", ErrMalformed},
		{"a newline, which base64 skips", head + "\n." + body + "." + tail, ErrMalformed},
		{"padding", valid + "==", ErrMalformed},
		{"the other base64", head + "." + body + "." + strings.NewReplacer("-", "+", "_", "/").Replace(tail) + "+", ErrMalformed},
		{"none", none("none"), ErrAlgorithm},
		{"None", none("None"), ErrAlgorithm},
		{"nOnE", none("nOnE"), ErrAlgorithm},
		{"an empty algorithm", none(""), ErrAlgorithm},
		{"none with a signature", none("none") + tail, ErrAlgorithm},
		{"the algorithm in lower case", es256(`{"alg":"es256","kid":"p256"}`, good), ErrAlgorithm},
		{"no algorithm", es256(`{"kid":"p256"}`, good), ErrMalformed},
		{"ALG is not alg", es256(`{"ALG":"ES256","kid":"p256"}`, good), ErrMalformed},
		{"an algorithm that is a number", es256(`{"alg":1}`, good), ErrMalformed},
		{"an unknown algorithm", es256(`{"alg":"ES256K"}`, good), ErrAlgorithm},
		{"a public key as a secret, PEM", sign("HS256", publicPEM, `{"alg":"HS256","kid":"rsa"}`, good), ErrAlgorithm},
		{"a public key as a secret, its modulus", sign("HS256", i.rsa.N.Bytes(), `{"alg":"HS256"}`, good), ErrAlgorithm},
		{"an empty secret", sign("HS256", []byte{}, `{"alg":"HS256"}`, good), ErrAlgorithm},
		{"no signature", head + "." + body + ".", ErrSignature},
		{"a signature of zeros", head + "." + body + "." + encode(make([]byte, 64)), ErrSignature},
		{"a short signature", head + "." + body + "." + tail[:40], ErrSignature},
		{"a signature in DER", der(), ErrSignature},
		{"another's claims", head + "." + encode([]byte(strings.Replace(good, "alice", "admin", 1))) + "." + tail, ErrSignature},
		{"another's key of the same name", sign("ES256", newIssuer().p256, header, good), ErrSignature},
		{"a kid that is not known", es256(`{"alg":"ES256","kid":"../../dev/null"}`, good), ErrKey},
		{"a kid of another kind", es256(`{"alg":"ES256","kid":"rsa"}`, good), ErrKey},
		{"a kid for encryption", sign("RS256", i.rsa, `{"alg":"RS256","kid":"enc"}`, good), ErrKey},
		{"a kid that is no string", es256(`{"alg":"ES256","kid":["p256"]}`, good), ErrMalformed},
		{"its own key", sign("ES256", newIssuer().p256, `{"alg":"ES256","jwk":`+rfcEC+`,"jku":"https://evil.example","x5u":"https://evil.example"}`, good), ErrSignature},
		{"crit", es256(`{"alg":"ES256","kid":"p256","crit":["b64"],"b64":false}`, good), ErrMalformed},
		{"a header that is a list", es256(`["ES256"]`, good), ErrMalformed},
		{"a header that is null", es256(`null`, good), ErrMalformed},
		{"two headers", es256(header+header, good), ErrMalformed},
		{"a header that ends early", es256(`{"alg":"ES256"`, good), ErrMalformed},
		{"claims that are a list", es256(header, "["+good+"]"), ErrMalformed},
		{"claims that are null", es256(header, "null"), ErrMalformed},
		{"no claims", es256(header, ""), ErrMalformed},
		{"claims and more", es256(header, good+"x"), ErrMalformed},
		{"claims that are not UTF-8", es256(header, strings.Replace(good, "alice", "al\xffice", 1)), ErrMalformed},
		{"a token in a token", es256(header, `"`+valid+`"`), ErrMalformed},
		{"expired", with("exp", "1799999970"), ErrExpired}, // by the leeway to the second
		{"expired long ago", with("exp", "-1e300"), ErrExpired},
		{"no expiry", without("exp"), ErrMalformed},
		{"an expiry that is text", with("exp", `"1800000600"`), ErrMalformed},
		{"an expiry that is null", with("exp", "null"), ErrMalformed},
		{"an expiry beyond numbers", with("exp", "1e999"), ErrMalformed},
		{"not yet", with("nbf", "1800000031"), ErrNotYet},
		{"not yet, by text", with("nbf", `"0"`), ErrMalformed},
		{"another issuer", with("iss", `"https://login.example/"`), ErrIssuer},
		{"no issuer", without("iss"), ErrIssuer},
		{"an issuer that is a list", with("iss", `["https://login.example"]`), ErrIssuer},
		{"another audience", with("aud", `"admin"`), ErrAudience},
		{"no audience", without("aud"), ErrAudience},
		{"an audience of nobody", with("aud", `[]`), ErrAudience},
		{"an audience of numbers", with("aud", `[1,null,{}]`), ErrAudience},
		{"an audience in another case", with("aud", `["API"]`), ErrAudience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 { // what failed once is not remembered
				c, err := v.Verify(tt.token)
				if c != nil || !errors.Is(err, tt.want) {
					t.Errorf("Verify = %v, %v, want %v", c, err, tt.want)
				}
				if err != nil && len(err.Error()) > 300 {
					t.Errorf("the error has %d bytes: %.100s", len(err.Error()), err)
				}
			}
		})
	}
}

func TestTokensThatAreBelieved(t *testing.T) {
	i := theIssuer()
	v := verifier(t, Config{Issuer: "https://login.example", Audience: []string{"web", "api"}})
	es256 := func(header, claims string) string { return sign("ES256", i.p256, header, claims) }
	for name, token := range map[string]string{
		"no kid":                es256(`{"alg":"ES256"}`, good),
		"more in the header":    es256(`{"alg":"ES256","kid":"p256","jku":"https://evil.example","x":[1]}`, good),
		"spaces":                es256(" {\"alg\" :\r\n\"ES256\"}\n", " "+good+"\n"),
		"one of many audiences": es256(`{"alg":"ES256"}`, strings.Replace(good, `"api"`, `["x","api"]`, 1)),
		"expired by the leeway": es256(`{"alg":"ES256"}`, strings.Replace(good, "1800000600", "1799999971", 1)),
		"a fraction":            es256(`{"alg":"ES256"}`, strings.Replace(good, "1800000600", "1800000000.5", 1)),
		"far ahead":             es256(`{"alg":"ES256"}`, strings.Replace(good, "1800000600", "1e300", 1)),
		"not before now":        es256(`{"alg":"ES256"}`, strings.Replace(good, "1799999400", "1800000030", 1)),
		"no nbf":                es256(`{"alg":"ES256"}`, strings.Replace(good, `"nbf"`, `"x"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := v.Verify(token)
			if err != nil || !c.Verified() {
				t.Fatalf("Verify = %v, %v, want verified claims", c, err)
			}
		})
	}
	forever := verifier(t, Config{NoExpiry: true})
	if got := claim(t, forever, es256(`{"alg":"ES256"}`, `{"sub":"x"}`), "sub"); got != "x" {
		t.Errorf("sub = %s, want x", got)
	}
}

func TestClaimsAreText(t *testing.T) {
	v := verifier(t, Config{Unverified: true, NoExpiry: true})
	token := sign("HS256", []byte("whatever"), `{"alg":"none"}`, `{"sub":"alice","n":12345678901234567890,"f":1.50,"yes":true,"no":false,
		"null":null,"empty":"","one":["x"],"two":["x","y"],"none":[],"object":{"a":1,"b":{"c":"deep"}},"https://example.com/tenant":"acme",
		"a.b":"whole","a":{"b":"part","c":{"d":"in"}},"a.c":{"d":"by dots"}}`)
	for name, want := range map[string]string{
		"sub": "alice", "n": "12345678901234567890", "f": "1.50", "yes": "true", "no": "false", "null": "-", "empty": "-", "one": "x", "two": "-",
		"none": "-", "object": "-", "object.a": "1", "object.b.c": "deep", "object.b": "-", "object.x": "-", "object.a.x": "-", "https://example.com/tenant": "acme",
		"a.b": "whole", "a.c.d": "in", "": "-", ".": "-", "sub.": "-", "Sub": "-",
	} {
		if got := claim(t, v, token, name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

func TestUnverifiedClaimsNameNoUser(t *testing.T) {
	v := verifier(t, Config{Unverified: true, Issuer: "https://login.example"})
	token := encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(good)) + "."
	c, err := v.Verify(token)
	if err != nil || c.Verified() {
		t.Fatalf("Verify = %v, %v, want claims that are not verified", c, err)
	}
	if _, err := v.Verify(strings.Replace(token, ".", "..", 1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v, want %v", err, ErrMalformed)
	}
	v.config.Now = func() time.Time { return now.Add(time.Hour) }
	if _, err := v.Verify(token); !errors.Is(err, ErrExpired) {
		t.Errorf("error %v, want %v", err, ErrExpired)
	}
	id, err := identity.New(identity.Config{Tokens: v})
	if err != nil {
		t.Fatal(err)
	}
	v.config.Now = func() time.Time { return now }
	checkUser(t, id, token, "-", "alice")
	verified := verifier(t, Config{})
	if id, err = identity.New(identity.Config{Tokens: verified}); err != nil {
		t.Fatal(err)
	}
	checkUser(t, id, theIssuer().token("RS256"), "alice", "alice")
	checkUser(t, id, token, "-", "-")
}

func TestTokensThatWereSeenAreStillChecked(t *testing.T) {
	i, v := theIssuer(), verifier(t, Config{})
	clock := now
	v.config.Now = func() time.Time { return clock }
	token := i.token("ES256")
	first := must(v.Verify(token))
	if again := must(v.Verify(token)); again != first {
		t.Error("a token that was seen was verified again")
	}
	clock = now.Add(630*time.Second - time.Millisecond)
	if _, err := v.Verify(token); err != nil {
		t.Errorf("at the last moment: %v", err)
	}
	clock = now.Add(630 * time.Second)
	if _, err := v.Verify(token); !errors.Is(err, ErrExpired) {
		t.Errorf("error %v, want %v", err, ErrExpired)
	}
	clock = now.Add(-time.Hour)
	if _, err := v.Verify(token); !errors.Is(err, ErrNotYet) {
		t.Errorf("error %v, want %v", err, ErrNotYet)
	}
	clock = now
	v.fixedKeys = must(parseKeys(newIssuer().jwks(), false))
	if _, err := v.Verify(token); !errors.Is(err, ErrSignature) {
		t.Errorf("its key is gone: error %v, want %v", err, ErrSignature)
	}
}

func TestVerifierIsSafeForConcurrentUse(t *testing.T) {
	i, v := theIssuer(), verifier(t, Config{})
	tokens := []string{i.token("ES256"), i.token("EdDSA"), i.token("RS256"), "bad"}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for n := range 200 {
				c, err := v.Verify(tokens[n%len(tokens)])
				if (err == nil) != (n%len(tokens) < 3) {
					t.Errorf("token %d: %v, %v", n%len(tokens), c, err)
				}
			}
		})
	}
	wait.Wait()
}
