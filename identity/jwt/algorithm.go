package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.Hash
	_ "crypto/sha512" // for crypto.Hash
	"hash"
	"math/big"
)

// A kind is a kind of signature.
type kind uint8

const (
	kindHMAC kind = iota
	kindRSA
	kindPSS
	kindECDSA
	kindEdDSA
)

// An algorithm is a signature algorithm of JWTs.
type algorithm struct {
	kind  kind
	hash  crypto.Hash    // 0 for kindEdDSA
	curve elliptic.Curve // only for kindECDSA
}

// algorithms are the supported algorithms by the name in a token's header.
var algorithms = map[string]algorithm{
	"HS256":   {kind: kindHMAC, hash: crypto.SHA256},
	"HS384":   {kind: kindHMAC, hash: crypto.SHA384},
	"HS512":   {kind: kindHMAC, hash: crypto.SHA512},
	"RS256":   {kind: kindRSA, hash: crypto.SHA256},
	"RS384":   {kind: kindRSA, hash: crypto.SHA384},
	"RS512":   {kind: kindRSA, hash: crypto.SHA512},
	"PS256":   {kind: kindPSS, hash: crypto.SHA256},
	"PS384":   {kind: kindPSS, hash: crypto.SHA384},
	"PS512":   {kind: kindPSS, hash: crypto.SHA512},
	"ES256":   {kind: kindECDSA, hash: crypto.SHA256, curve: elliptic.P256()},
	"ES384":   {kind: kindECDSA, hash: crypto.SHA384, curve: elliptic.P384()},
	"ES512":   {kind: kindECDSA, hash: crypto.SHA512, curve: elliptic.P521()},
	"EdDSA":   {kind: kindEdDSA},
	"Ed25519": {kind: kindEdDSA},
}

// publicAlgorithms returns the names of the algorithms that use public keys.
func publicAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
}

// acceptsKey reports whether the algorithm can use a key. A key is a []byte or a public key of the standard library.
func (a algorithm) acceptsKey(key any) bool {
	switch k := key.(type) {
	case []byte:
		return a.kind == kindHMAC && len(k) >= a.hash.Size()
	case *rsa.PublicKey:
		return a.kind == kindRSA || a.kind == kindPSS
	case *ecdsa.PublicKey:
		return a.kind == kindECDSA && k.Curve == a.curve
	case ed25519.PublicKey:
		return a.kind == kindEdDSA
	default:
		return false
	}
}

// verify reports whether signature is a signature of the text with the key. acceptsKey must be true for the key.
func (a algorithm) verify(key any, text, signature []byte) bool {
	if a.kind == kindEdDSA {
		return len(signature) == ed25519.SignatureSize && ed25519.Verify(key.(ed25519.PublicKey), text, signature)
	}
	if a.kind == kindHMAC {
		mac := hmac.New(func() hash.Hash { return a.hash.New() }, key.([]byte))
		_, _ = mac.Write(text)
		return hmac.Equal(mac.Sum(nil), signature)
	}
	h := a.hash.New()
	_, _ = h.Write(text)
	digest := h.Sum(nil)
	switch a.kind {
	case kindRSA:
		return rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), a.hash, digest, signature) == nil
	case kindPSS:
		options := rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: a.hash}
		return rsa.VerifyPSS(key.(*rsa.PublicKey), a.hash, digest, signature, &options) == nil
	default: // kindECDSA: the signature consists of two numbers of the curve's size
		size := (a.curve.Params().BitSize + 7) / 8
		if len(signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
		return ecdsa.Verify(key.(*ecdsa.PublicKey), digest, r, s)
	}
}
