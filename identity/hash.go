package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// hashBytes is how much of a hash is kept: 144 bits, 24 characters of text.
const hashBytes = 18

// maxHashed is the longest value that is hashed. A longer one counts as missing, so that nobody can keep us busy with it.
const maxHashed = 64 << 10

// Hashes of different things differ even if the things are equal.
const (
	hashedBearer = 'b'
	hashedHeader = 'h'
	hashedValue  = 'v'
)

// A hasher stands secrets and long values in for by a keyed hash.
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

func (h *hasher) sum(what byte, value string) string {
	if len(value) > maxHashed {
		return ""
	}
	return h.sumPair(what, value, "")
}

// sumPair returns the hash of both texts as one.
func (h *hasher) sumPair(what byte, value, more string) string {
	m := h.pool.Get().(*mac)
	m.Reset()
	m.buf = append(m.buf[:0], what)
	m.buf = append(append(m.buf, value...), more...)
	_, _ = m.Write(m.buf) // never fails
	clear(m.buf)          // the pool keeps no secrets
	m.buf = m.Sum(m.buf[:0])
	var text [(hashBytes*8 + 5) / 6]byte
	base64.RawURLEncoding.Encode(text[:], m.buf[:hashBytes])
	h.pool.Put(m)
	return string(text[:])
}

// bound returns the value, or its hash if it is longer than Config.MaxValue.
func (id *Identifier) bound(value string) string {
	if len(value) <= id.config.MaxValue {
		return value
	}
	return id.hasher.sum(hashedValue, value)
}
