package jwt

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// seenSlots is how many tokens are remembered.
const seenSlots = 4096

// seen remembers tokens that were believed, by their hash. A token has one slot, and takes it from who had it before.
type seen [seenSlots]atomic.Pointer[seenToken]

type sum [sha256.Size]byte

type seenToken struct {
	sum         sum
	keys        *keySet // that it was verified by; it is not believed anymore when these have changed
	claims      *claims
	from, until int64
}

// sumOf returns the hash of a token.
func sumOf(text string) sum {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text))) // which only reads it
}

func (s sum) slot() uint64 { return binary.LittleEndian.Uint64(s[:]) % seenSlots }

func (s *seen) get(sum sum, keys *keySet) *seenToken {
	if known := s[sum.slot()].Load(); known != nil && known.sum == sum && known.keys == keys {
		return known
	}
	return nil
}

func (s *seen) put(t *seenToken) { s[t.sum.slot()].Store(t) }
