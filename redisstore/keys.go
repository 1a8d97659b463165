package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/ascii85"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/headgate/headgate/algorithm"
)

// A keyMaker makes Redis keys of the form prefix{tag}name, followed by a suffix for the kind of state. The name is a
// keyed hash of owner and key, with 128 bits. The tag is 18 bits of a keyed hash of the owner; it selects the slot, so
// that all keys of an owner are in one slot. Nobody can identify a client from these hashes without the secret. With
// the default prefix, a key has 28 bytes, the most that Redis stores in a block of 32.
type keyMaker struct {
	prefix string
	macs   sync.Pool // of *mac
	second *keyMaker // makes the keys under Options.SecondSecret, or nil
}

// A mac computes keyed hashes and reuses its buffers.
type mac struct {
	hash.Hash
	in  []byte
	out [sha256.Size]byte
}

// Sizes in bytes.
const (
	tagTextSize  = 3  // in base64
	tagHashSize  = 3  // the part of the hash that is encoded, of which 18 bits are used
	nameTextSize = 20 // in base 85
	nameHashSize = 16
)

// Suffixes of keys. Leases of a concurrency limit do not count as consumption, and have a key of their own.
const (
	consumedSuffix = "u"
	leasesSuffix   = "c"
)

func suffixOf(kind algorithm.Kind) string {
	if kind == algorithm.KindLeases {
		return leasesSuffix
	}
	return consumedSuffix
}

// unsplit is the part number of a key that is not split.
const unsplit = -1

func newKeyMaker(prefix string, secret []byte) *keyMaker {
	m := &keyMaker{prefix: prefix}
	secret = append([]byte(nil), secret...)
	m.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }
	return m
}

// key returns the Redis key of a part of a check's key, or of the whole key if part is unsplit.
func (m *keyMaker) key(owner, key string, part int, suffix string) string {
	h := m.macs.Get().(*mac)
	defer m.macs.Put(h)
	name := h.sum(owner, key, part)
	slot := name
	if owner != "" && part == unsplit {
		slot = h.sum(owner, "", unsplit)
	}
	var tag [4]byte // the tag is made from bits of the hash that are not in the name
	base64.RawURLEncoding.Encode(tag[:], slot[nameHashSize:nameHashSize+tagHashSize])

	var array [64]byte
	redisKey := append(append(array[:0], m.prefix...), '{')
	redisKey = append(append(redisKey, tag[:tagTextSize]...), '}')
	var text [nameTextSize]byte
	size := ascii85.Encode(text[:], name[:nameHashSize]) // an all-zero group of 4 bytes takes one byte instead of 5
	return string(append(append(redisKey, text[:size]...), suffix...))
}

// sum returns the keyed hash of its arguments. The length of owner is hashed too, so that different arguments never
// result in the same input.
func (h *mac) sum(owner, key string, part int) [sha256.Size]byte {
	h.in = binary.AppendUvarint(h.in[:0], uint64(part+1))
	h.in = binary.AppendUvarint(h.in, uint64(len(owner)))
	h.in = append(append(h.in, owner...), key...)
	h.Reset()
	h.Write(h.in)
	return [sha256.Size]byte(h.Sum(h.out[:0]))
}
