package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"sync"
)

// hashBytes is the length of a truncated hash: 144 bits, 24 characters of text.
const hashBytes = 18

// maxInputBytes is the maximum length of a value, to bound the work of hashing it. In a request, a longer value counts
// as missing.
const maxInputBytes = 64 << 10

// Kinds of hashed values. Equal values of different kinds have different hashes.
const (
	hashedBearer = 'b'
	hashedHeader = 'h'
	hashedValue  = 'v'
)

// A hasher computes the keyed hashes that replace secrets and long values.
type hasher struct {
	pool sync.Pool // of *mac
}

type mac struct {
	hash.Hash
	buf []byte
}

func newHasher(secret []byte) *hasher {
	return &hasher{pool: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }}}
}

func (h *hasher) sum(kind byte, value string) string {
	if len(value) > maxInputBytes {
		return ""
	}
	return h.sumPair(kind, value, "")
}

// sumPair returns the hash of two concatenated texts.
func (h *hasher) sumPair(kind byte, first, second string) string {
	m := h.pool.Get().(*mac)
	m.Reset()
	m.buf = append(m.buf[:0], kind)
	m.buf = append(append(m.buf, first...), second...)
	_, _ = m.Write(m.buf) // never fails
	clear(m.buf)          // so that no secret stays in the pool
	m.buf = m.Sum(m.buf[:0])
	var text [(hashBytes*8 + 5) / 6]byte
	base64.RawURLEncoding.Encode(text[:], m.buf[:hashBytes])
	h.pool.Put(m)
	return string(text[:])
}

// hashIfLong returns the value, or its hash if it is longer than Config.MaxValue.
func (ident *Identifier) hashIfLong(value string) string {
	if len(value) <= ident.config.MaxValue {
		return value
	}
	return ident.hasher.sum(hashedValue, value)
}

// ErrSealed is returned by Unseal for text that was sealed with another secret, or changed afterwards.
var ErrSealed = errors.New("sealed with another secret")

// newSealer returns a cipher whose key is derived from the secret.
func newSealer(secret []byte) cipher.AEAD {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write([]byte("headgate seal")) // never fails
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer
}

// Seal encrypts text so that only processes with the same Config.Secret can read it. It returns false without a
// Config.Secret.
func (ident *Identifier) Seal(text []byte) (sealed []byte, ok bool) {
	if ident.sealer == nil {
		return nil, false
	}
	return ident.sealer.Seal(nil, nil, text, nil), true
}

// Unseal returns text that was sealed with Config.Secret or Config.SecondSecret. The error is ErrSealed.
func (ident *Identifier) Unseal(sealed []byte) ([]byte, error) {
	if ident.sealer == nil {
		return nil, ErrSealed
	}
	text, err := ident.sealer.Open(nil, nil, sealed, nil)
	if err != nil && ident.secondSealer != nil {
		text, err = ident.secondSealer.Open(nil, nil, sealed, nil)
	}
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}
