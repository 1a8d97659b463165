package jwt

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// cacheSlots is the number of cached tokens.
const cacheSlots = 4096

// A tokenCache holds valid tokens by their hash. Each token has one slot, in which it replaces the previous one.
type tokenCache [cacheSlots]atomic.Pointer[cachedToken]

type sum [sha256.Size]byte

type cachedToken struct {
	sum         sum
	keys        *keySet // the keys that verified it; with other keys it is verified again
	claims      *claims
	from, until int64
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
