package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

// An issuer has a key of every kind.
type issuer struct {
	rsa     *rsa.PrivateKey
	p256    *ecdsa.PrivateKey
	p384    *ecdsa.PrivateKey
	p521    *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
	secret  []byte
}

var theIssuer = sync.OnceValue(newIssuer)

func newIssuer() *issuer {
	i := &issuer{secret: []byte(strings.Repeat("0123456789abcdef", 4))}
	i.rsa = must(rsa.GenerateKey(rand.Reader, 2048))
	i.p256 = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	i.p384 = must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	i.p521 = must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	_, i.ed25519, _ = ed25519.GenerateKey(rand.Reader)
	return i
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// keyFor returns the private key for an algorithm.
func (i *issuer) keyFor(alg string) any {
	switch alg {
	case "ES256":
		return i.p256
	case "ES384":
		return i.p384
	case "ES512":
		return i.p521
	case "EdDSA", "Ed25519":
		return i.ed25519
	case "HS256", "HS384", "HS512":
		return i.secret
	default:
		return i.rsa
	}
}

// jwks returns the public keys as they are published, each under its kid.
func (i *issuer) jwks() []byte {
	ec := func(kid string, k *ecdsa.PrivateKey) map[string]any {
		point := must(k.PublicKey.Bytes())[1:]
		return map[string]any{"kty": "EC", "kid": kid, "crv": k.Params().Name, "x": encode(point[:len(point)/2]), "y": encode(point[len(point)/2:])}
	}
	return must(json.Marshal(map[string]any{"keys": []any{
		map[string]any{"kty": "RSA", "kid": "rsa", "use": "sig", "n": encode(i.rsa.N.Bytes()), "e": encode(big.NewInt(int64(i.rsa.E)).Bytes())},
		ec("p256", i.p256), ec("p384", i.p384), ec("p521", i.p521),
		map[string]any{"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": encode(i.ed25519.Public().(ed25519.PublicKey))},
		map[string]any{"kty": "RSA", "kid": "enc", "use": "enc", "n": encode(i.rsa.N.Bytes()), "e": "AQAB"},
		map[string]any{"kty": "OKP", "kid": "x", "crv": "X25519", "x": "AA"},
		map[string]any{"kty": "AKP", "kid": "future"},
	}}))
}

var kids = map[string]string{"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed", "Ed25519": "ed"}

// sign returns a token, its header and claims as JSON.
func sign(alg string, key any, header, claims string) string {
	text := encode([]byte(header)) + "." + encode([]byte(claims))
	return text + "." + encode(signature(alg, key, text))
}

func signature(alg string, key any, text string) []byte {
	a := algorithms[alg]
	if a.kind == kindEdDSA {
		return ed25519.Sign(key.(ed25519.PrivateKey), []byte(text))
	}
	if a.kind == kindHMAC {
		mac := hmac.New(a.hash.New, key.([]byte))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	h := a.hash.New()
	h.Write([]byte(text))
	digest := h.Sum(nil)
	switch a.kind {
	case kindRSA:
		return must(rsa.SignPKCS1v15(nil, key.(*rsa.PrivateKey), a.hash, digest))
	case kindPSS:
		return must(rsa.SignPSS(rand.Reader, key.(*rsa.PrivateKey), a.hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: a.hash}))
	default:
		private := key.(*ecdsa.PrivateKey)
		r, s, err := ecdsa.Sign(rand.Reader, private, digest)
		if err != nil {
			panic(err)
		}
		size := (private.Params().BitSize + 7) / 8
		out := make([]byte, 2*size)
		r.FillBytes(out[:size])
		s.FillBytes(out[size:])
		return out
	}
}

// now is the time of all tests; a token of good is valid then.
var now = time.Unix(1_800_000_000, 0)

const good = `{"iss":"https://login.example","aud":"api","sub":"alice","exp":1800000600,"nbf":1799999400}`

// token returns a good one, signed by the issuer.
func (i *issuer) token(alg string) string {
	return sign(alg, i.keyFor(alg), fmt.Sprintf(`{"alg":%q,"typ":"JWT","kid":%q}`, alg, or(kids[alg], "rsa")), good)
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// verifier returns one that has the issuer's keys without asking for them.
func verifier(t testing.TB, c Config) *Verifier {
	t.Helper()
	c.Now = func() time.Time { return now }
	if len(c.Secret) == 0 && !c.Unverified {
		c.Unverified = true // so that New asks nobody
		v, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		v.config.Unverified = false
		if v.fixedKeys, err = parseKeys(theIssuer().jwks(), false); err != nil {
			t.Fatal(err)
		}
		return v
	}
	v, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func claim(t testing.TB, v *Verifier, token, name string) string {
	t.Helper()
	c, err := v.Verify(token)
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	value, ok := c.Claim(name)
	if !ok {
		return "-"
	}
	return value
}

var quiet = slog.New(slog.DiscardHandler)
