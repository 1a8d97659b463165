package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A keySet holds the keys in use. It is immutable.
type keySet struct {
	keys []key
}

type key struct {
	id    string // kid, may be empty
	alg   string // the only algorithm for the key; empty for any
	value any    // a []byte for HMAC, or a public key: see algorithm.acceptsKey
}

// maxTries is the maximum number of keys that are tried for a token, so that a token without kid does not cost too
// much.
const maxTries = 4

// candidates returns the keys that may have signed a token.
func (s *keySet) candidates(kid, alg string, a algorithm) []key {
	var keys []key
	for _, k := range s.keys {
		if kid != "" && k.id != "" && k.id != kid || k.alg != "" && k.alg != alg || !a.acceptsKey(k.value) {
			continue
		}
		if keys = append(keys, k); len(keys) == maxTries {
			break
		}
	}
	return keys
}

// A jwk is a JSON Web Key (RFC 7517, RFC 8037).
type jwk struct {
	Type       string   `json:"kty"`
	ID         string   `json:"kid"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	Curve      string   `json:"crv"`
	N          string   `json:"n"`
	E          string   `json:"e"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	K          string   `json:"k"`
}

// The bounds of a key set.
const (
	maxSetBytes = 1 << 20
	maxSetKeys  = 100
)

// errUnusable is the error for a key that is skipped, because it is not for signatures or has an unknown type.
var errUnusable = errors.New("not a key to verify with")

// parseKeys parses a key set, and skips unusable keys. Keys for HMAC are unusable unless allowHMAC is set.
func parseKeys(data []byte, allowHMAC bool) (*keySet, error) {
	if len(data) > maxSetBytes {
		return nil, fmt.Errorf("more than %d bytes: want a set of keys", maxSetBytes)
	}
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("not a set of keys: want {\"keys\": [...]}: %w", err)
	}
	if len(doc.Keys) > maxSetKeys {
		return nil, fmt.Errorf("%d keys: want at most %d", len(doc.Keys), maxSetKeys)
	}
	set, faults := &keySet{}, []error{}
	for i, raw := range doc.Keys {
		var j jwk
		err := json.Unmarshal(raw, &j)
		if err == nil {
			var value any
			if value, err = j.key(allowHMAC); err == nil {
				set.keys = append(set.keys, key{id: j.ID, alg: j.Algorithm, value: value})
				continue
			}
		}
		faults = append(faults, fmt.Errorf("key %d (%q): %w", i+1, j.ID, err))
	}
	if len(set.keys) == 0 {
		return nil, fmt.Errorf("none of %d keys can verify: %w", len(doc.Keys), errors.Join(faults...))
	}
	return set, nil
}

// key returns the value of key.value.
func (j *jwk) key(allowHMAC bool) (any, error) {
	if j.Use != "" && j.Use != "sig" || len(j.Operations) > 0 && !slices.Contains(j.Operations, "verify") {
		return nil, errUnusable
	}
	switch j.Type {
	case "RSA":
		return j.rsa()
	case "EC":
		return j.ecdsa()
	case "OKP":
		return j.ed25519()
	case "oct":
		if !allowHMAC {
			return nil, errors.New("a secret that is published: want a public key")
		}
		secret, err := decode(j.K)
		if err != nil || len(secret) < 32 {
			return nil, errors.New("want at least 32 bytes in k")
		}
		return secret, nil
	default:
		return nil, errUnusable
	}
}

func (j *jwk) rsa() (any, error) {
	n, err := decode(j.N)
	if err != nil {
		return nil, fmt.Errorf("n: %w", err)
	}
	e, err := decode(j.E)
	if err != nil {
		return nil, fmt.Errorf("e: %w", err)
	}
	modulus, exponent := new(big.Int).SetBytes(n), new(big.Int).SetBytes(e)
	if bits := modulus.BitLen(); bits < 2048 || bits > 8192 || modulus.Bit(0) == 0 {
		return nil, fmt.Errorf("a modulus of %d bits: want an odd one of 2048 to 8192", bits)
	}
	if exponent.BitLen() > 31 || exponent.Int64() < 3 || exponent.Bit(0) == 0 {
		return nil, errors.New("e: want an odd exponent of 3 to 2^31-1")
	}
	return &rsa.PublicKey{N: modulus, E: int(exponent.Int64())}, nil
}

func (j *jwk) ecdsa() (any, error) {
	var curve elliptic.Curve
	switch j.Curve {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	default:
		return nil, errUnusable
	}
	x, err := decode(j.X)
	if err != nil {
		return nil, fmt.Errorf("x: %w", err)
	}
	y, err := decode(j.Y)
	if err != nil {
		return nil, fmt.Errorf("y: %w", err)
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, fmt.Errorf("a point of %d and %d bytes: want %d each", len(x), len(y), size)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil, fmt.Errorf("a point that is not on the curve: %w", err)
	}
	return public, nil
}

func (j *jwk) ed25519() (any, error) {
	if j.Curve != "Ed25519" {
		return nil, errUnusable
	}
	x, err := decode(j.X)
	if err != nil || len(x) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("x: want %d bytes", ed25519.PublicKeySize)
	}
	return ed25519.PublicKey(x), nil
}

// strictBase64 refuses text whose last bits do not fill a byte and are not 0.
var strictBase64 = base64.RawURLEncoding.Strict()

// decode decodes canonical base64url without padding.
func decode(text string) ([]byte, error) {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 { // the decoder skips them
		return nil, base64.CorruptInputError(i)
	}
	return strictBase64.DecodeString(text)
}
