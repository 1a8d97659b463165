package match

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"unsafe"
)

// A textTable finds a number by a text, faster than a map. Its texts come from the rules, so a request cannot make a
// search long.
type textTable struct {
	entries []textEntry // a power of two, at most half of them used
	seed    uint64
	lengths uint64 // bit set of the lengths of texts modulo 64, which rules out most texts that are not here
}

type textEntry struct {
	text  string
	value int32 // noNode if the entry is free
}

func newTextTable(values map[string]int32) *textTable {
	size := 1 << bits.Len(uint(2*len(values)))
	t := &textTable{entries: make([]textEntry, size), seed: maphash.String(maphash.MakeSeed(), "")}
	for i := range t.entries {
		t.entries[i].value = noNode
	}
	for text, value := range values {
		*t.entry(text) = textEntry{text, value}
		t.lengths |= 1 << (len(text) % 64)
	}
	return t
}

// find returns the number of a text, noNode if it has none.
func (t *textTable) find(text string) int32 {
	if t.lengths>>(len(text)%64)&1 == 0 {
		return noNode
	}
	return t.entry(text).value
}

// entry returns the entry of a text, or the free one where it would be. It hashes the text by multiplication, sixteen
// bytes at a time.
func (t *textTable) entry(text string) *textEntry {
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
		if e.value == noNode || e.text == text {
			return e
		}
	}
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
