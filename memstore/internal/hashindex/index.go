// Package hashindex maps the hashes of keys to numbers. The map takes little memory and has no pointers, so the garbage
// collector does not scan it.
package hashindex

// An Index is an open-addressed table of words. The upper 32 bits of a word are bits of a key's hash, and say where a
// probe for the word begins. The lower 32 bits are a number that is not 0. A word of 0 is free. If several keys share
// these bits of their hashes, each has a word, and the caller must distinguish them. The zero Index is empty.
type Index struct {
	words []uint64 // a power of two, or none
	used  int
}

const (
	// BytesPerKey is the most memory that an Index takes for a key. An Index doubles when it is 3/4 full; the figure
	// includes the old words while they are copied.
	BytesPerKey = 32

	minWords      = 16
	maxEmptyWords = 128 // an Index with more words frees them when it becomes empty
	numberBits    = 32
)

func newWord(hash uint64, number uint32) uint64 { return hash<<numberBits | uint64(number) }

// Len returns how many numbers the index holds.
func (x *Index) Len() int { return x.used }

// First returns the first number of a hash, and its position for Next. The number is 0 if there is none.
func (x *Index) First(hash uint64) (number uint32, at uint64) {
	if len(x.words) == 0 {
		return 0, 0
	}
	return x.probe(hash, x.start(newWord(hash, 0)))
}

// Next returns the next number of a hash after the one at a position.
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

// Add adds a number for a hash.
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

// Replace replaces a number of a hash, which must be in the index, by another.
func (x *Index) Replace(hash uint64, from, to uint32) {
	x.words[x.find(newWord(hash, from))] = newWord(hash, to)
}

// Remove removes a number of a hash, which must be in the index. It moves later words into the gap if a probe would
// otherwise stop at the gap and not find them.
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
