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

// A Redis key is prefix{tag}name and a letter for the kind of state. The name is a keyed hash of owner and key, of 128
// bits; the tag, which alone chooses the slot, is 18 bits of a keyed hash of the owner, so that all keys of an owner are
// in one slot. Neither tells who he is to one who does not have the secret. With the default prefix that is 28 bytes, the
// most that Redis keeps in 32.
type keyMaker struct {
	prefix string
	macs   sync.Pool // of *mac
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

// The last letter of a key. Places in flight are no consumption, and are kept apart.
const (
	consumedLetter = "u"
	heldLetter     = "c"
)

func letterOf(k algorithm.Kind) string {
	if k == algorithm.KindLeases {
		return heldLetter
	}
	return consumedLetter
}

// unsplit is the part of a key that is not counted in parts.
const unsplit = -1

func newKeyMaker(prefix string, secret []byte) *keyMaker {
	m := &keyMaker{prefix: prefix}
	secret = append([]byte(nil), secret...)
	m.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }
	return m
}

// key returns the Redis key of a part of a key, without its last letter.
func (m *keyMaker) key(owner, key string, part int) string { return m.keyOf(owner, key, part, "") }

// keyOf returns the Redis key of a part of a key, and a letter.
func (m *keyMaker) keyOf(owner, key string, part int, letter string) string {
	h := m.macs.Get().(*mac)
	defer m.macs.Put(h)
	name := h.sum(owner, key, part)
	place := name
	if owner != "" && part == unsplit {
		place = h.sum(owner, "", unsplit)
	}
	var tag [4]byte // of bits that are not in the name
	base64.RawURLEncoding.Encode(tag[:], place[nameSize:nameSize+3])

	var room [64]byte
	made := append(append(room[:0], m.prefix...), '{')
	made = append(append(made, tag[:tagBytes]...), '}')
	var text [nameBytes]byte
	size := ascii85.Encode(text[:], name[:nameSize])
	return string(append(append(made, text[:size]...), letter...))
}

// sum returns the keyed hash of parts that cannot run together.
func (h *mac) sum(owner, key string, part int) [sha256.Size]byte {
	h.in = binary.AppendUvarint(h.in[:0], uint64(part+1))
	h.in = binary.AppendUvarint(h.in, uint64(len(owner)))
	h.in = append(append(h.in, owner...), key...)
	h.Reset()
	h.Write(h.in)
	return [sha256.Size]byte(h.Sum(h.out[:0]))
}
