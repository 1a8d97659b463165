package jwt

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// cacheSlots is the number of cached tokens.
const cacheSlots = 4096

// A tokenCache holds valid tokens. The hash of a token selects its slot, in which it replaces the previous token.
type tokenCache [cacheSlots]atomic.Pointer[cachedToken]

type sum [sha256.Size]byte

type cachedToken struct {
	sum         sum
	keys        *keySet // the keys with which the token was verified; it must be verified again with other keys
	claims      *claims
	from, until int64 // the result of token.period
}

// sumOf returns the hash of a token.
func sumOf(text string) sum {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text))) // safe, because Sum256 only reads the bytes
}

func (s sum) slot() uint64 { return binary.LittleEndian.Uint64(s[:]) % cacheSlots }

func (s *tokenCache) get(sum sum, keys *keySet) *cachedToken {
	if cached := s[sum.slot()].Load(); cached != nil && cached.sum == sum && cached.keys == keys {
		return cached
	}
	return nil
}

func (s *tokenCache) put(t *cachedToken) { s[t.sum.slot()].Store(t) }
