package match

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// A textTable is a map with strings as keys that is faster than a Go map. It needs no protection against crafted keys,
// because the keys come from the rules and not from requests.
type textTable[V any] struct {
	entries []textEntry[V] // a power of two, at most half of them used
	seed    uint64
	lengths uint64 // bit set: the lengths of texts modulo 64; excludes most texts that are not in the table
}

type textEntry[V any] struct {
	text  string
	used  bool
	value V
}

// newTextTable returns a table with the elements of a map, or nil if the map is empty.
func newTextTable[V any](values map[string]V) *textTable[V] {
	if len(values) == 0 {
		return nil
	}
	size := 1 << bits.Len(uint(2*len(values)))
	t := &textTable[V]{entries: make([]textEntry[V], size), seed: maphash.String(maphash.MakeSeed(), "")}
	for text, value := range values {
		*t.entry(text) = textEntry[V]{text, true, value}
		t.lengths |= 1 << (len(text) % 64)
	}
	return t
}

// find returns the value of a text. ok is false if the text is not in the table.
func (t *textTable[V]) find(text string) (value V, ok bool) {
	if t.lengths>>(len(text)%64)&1 == 0 {
		return value, false
	}
	e := t.entry(text)
	return e.value, e.used
}

// entry returns the entry of a text, or the unused entry in which to store it. It hashes the text by multiplication,
// sixteen bytes at a time.
func (t *textTable[V]) entry(text string) *textEntry[V] {
	const k0, k1 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	b := unsafe.Slice(unsafe.StringData(text), len(text))
	sum := t.seed ^ uint64(len(b))
	for len(b) > 16 {
		sum = mix(sum^binary.LittleEndian.Uint64(b)^k0, binary.LittleEndian.Uint64(b[8:])^k1)
		b = b[16:]
	}
	var low, high uint64 // the halves overlap if there are fewer than 16 bytes
	switch {
	case len(b) >= 8:
		low, high = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[len(b)-8:])
	case len(b) >= 4:
		low, high = uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	case len(b) > 0:
		low, high = uint64(b[0])<<8|uint64(b[len(b)>>1]), uint64(b[len(b)-1])
	}
	for at := int(mix(sum^low^k0, sum^high^k1)); ; at++ {
		e := &t.entries[at&(len(t.entries)-1)]
		if !e.used || e.text == text {
			return e
		}
	}
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
