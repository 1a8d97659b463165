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

// A keyMaker makes Redis keys of the form prefix{tag}name and a suffix for the kind of state. The name is a keyed hash
// of owner and key, of 128 bits. The tag, which selects the slot, is 18 bits of a keyed hash of the owner, so that all
// keys of an owner are in one slot. Neither identifies the client without the secret. With the default prefix a key has
// 28 bytes, the most that Redis stores in 32.
type keyMaker struct {
	prefix string
	macs   sync.Pool // of *mac
	second *keyMaker // of Options.SecondSecret, or nil
}

type mac struct {
	hash.Hash
	in  []byte
	out [sha256.Size]byte
}

const (
	tagBytes  = 3  // of base64
	nameBytes = 20 // of base 85
	nameSize  = 16
)

// Suffixes of keys. Leases of a concurrency limit are not consumption, and have a key of their own.
const (
	consumedSuffix = "u"
	leasesSuffix   = "c"
)

func suffixOf(k algorithm.Kind) string {
	if k == algorithm.KindLeases {
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

// key returns the Redis key of a part of a key.
func (m *keyMaker) key(owner, key string, part int, suffix string) string {
	h := m.macs.Get().(*mac)
	defer m.macs.Put(h)
	name := h.sum(owner, key, part)
	slot := name
	if owner != "" && part == unsplit {
		slot = h.sum(owner, "", unsplit)
	}
	var tag [4]byte // of bits that are not in the name
	base64.RawURLEncoding.Encode(tag[:], slot[nameSize:nameSize+3])

	var array [64]byte
	redisKey := append(append(array[:0], m.prefix...), '{')
	redisKey = append(append(redisKey, tag[:tagBytes]...), '}')
	var text [nameBytes]byte
	size := ascii85.Encode(text[:], name[:nameSize])
	return string(append(append(redisKey, text[:size]...), suffix...))
}

// sum returns the keyed hash of its arguments, each with its length.
func (h *mac) sum(owner, key string, part int) [sha256.Size]byte {
	h.in = binary.AppendUvarint(h.in[:0], uint64(part+1))
	h.in = binary.AppendUvarint(h.in, uint64(len(owner)))
	h.in = append(append(h.in, owner...), key...)
	h.Reset()
	h.Write(h.in)
	return [sha256.Size]byte(h.Sum(h.out[:0]))
}
