// Package hashindex finds numbers by the hashes of keys, in little memory and without pointers.
package hashindex

// An Index is an open-addressed table of words. A word has 32 bits of a key's hash, which also say where a probe for it
// begins, and a number of 32 bits that is not 0. A word of 0 is free. Keys that share these bits of their hashes have
// one word each; the caller tells them apart. The zero Index is empty.
type Index struct {
	words []uint64 // a power of two, or none
	used  int
}

const (
	// BytesPerKey is the most memory that an Index takes for a key. It is at most 3/4 full and doubles then; this includes
	// the old words while they are copied.
	BytesPerKey = 32

	minWords      = 16
	maxEmptyWords = 128 // that an Index keeps when its last word is removed
	numberBits    = 32
)

func newWord(hash uint64, number uint32) uint64 { return hash<<numberBits | uint64(number) }

// Len returns how many numbers the index holds.
func (x *Index) Len() int { return x.used }

// First returns the first number under a hash and its position. The number is 0 if there is none.
func (x *Index) First(hash uint64) (number uint32, at uint64) {
	if len(x.words) == 0 {
		return 0, 0
	}
	return x.probe(hash, x.start(newWord(hash, 0)))
}

// Next returns the next number under a hash, behind the one at a position.
func (x *Index) Next(hash, at uint64) (uint32, uint64) { return x.probe(hash, at+1) }

func (x *Index) probe(hash, at uint64) (uint32, uint64) {
	words := x.words
	for mask := uint64(len(words) - 1); ; at++ {
		word := words[at&mask]
		if word == 0 || word>>numberBits == hash&(1<<numberBits-1) {
			return uint32(word), at
		}
	}
}

// start returns the position at which a probe for a word begins.
func (x *Index) start(word uint64) uint64 { return word >> numberBits & x.mask() }

func (x *Index) mask() uint64 { return uint64(len(x.words) - 1) }

// Add adds a number under a hash.
func (x *Index) Add(hash uint64, number uint32) {
	if 4*(x.used+1) > 3*len(x.words) {
		x.grow()
	}
	x.insert(newWord(hash, number))
	x.used++
}

func (x *Index) insert(word uint64) {
	i := x.start(word)
	for x.words[i] != 0 {
		i = (i + 1) & x.mask()
	}
	x.words[i] = word
}

func (x *Index) grow() {
	old := x.words
	x.words = make([]uint64, max(minWords, 2*len(old)))
	for _, word := range old {
		if word != 0 {
			x.insert(word)
		}
	}
}

// find returns the position of a word that is in the index.
func (x *Index) find(word uint64) uint64 {
	i := x.start(word)
	for x.words[i] != word {
		i = (i + 1) & x.mask()
	}
	return i
}

// Replace replaces a number under a hash by another.
func (x *Index) Replace(hash uint64, from, to uint32) {
	x.words[x.find(newWord(hash, from))] = newWord(hash, to)
}

// Remove removes a number under a hash. It moves the words behind it to where a probe finds them.
func (x *Index) Remove(hash uint64, number uint32) {
	mask := x.mask()
	hole := x.find(newWord(hash, number))
	for i := (hole + 1) & mask; x.words[i] != 0; i = (i + 1) & mask {
		if (i-x.start(x.words[i]))&mask >= (i-hole)&mask {
			x.words[hole], hole = x.words[i], i
		}
	}
	x.words[hole] = 0
	if x.used--; x.used == 0 && len(x.words) > maxEmptyWords {
		x.words = nil // it does not shrink otherwise
	}
}
