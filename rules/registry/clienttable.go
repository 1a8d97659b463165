package registry

import (
	"math/bits"
	"sync/atomic"
)

// A valueHash is the keyed 128-bit hash of a value, in two halves.
type valueHash [2]uint64

// A clientTable is a hash table of clients by value hashes, with linear probing. Reads take no lock; writers must hold
// one.
//
// The time of a decision depends on the number of cache misses. So a cell has one half of the hash and the data of most
// clients side by side; everything else is stored separately.
type clientTable struct {
	shapes *shapeTable // of the clients' limits
	cells  atomic.Pointer[cells]
	count  int // clients
	used   int // cells that are or were taken
}

// A cell holds one client.
type cell struct {
	first atomic.Uint64 // half of the hash; 0 if the cell was never taken
	word  atomic.Uint64 // a packed limit, or one of the constants below
}

// Words that are no packed limits.
const (
	wordFree     = 0 // the client was removed
	wordOverflow = numberMask - iota
	wordNoGrants
	wordUnlimited
	wordBlocked
)

type cells struct {
	list []cell
	// collisions reports whether two hashes have the same first half, so that one half is not enough. That is very
	// unlikely.
	collisions atomic.Bool
	// The second halves of the hashes, and records that do not fit into a word. Both are written before the cell is
	// taken.
	secondHalves  []uint64
	overflowPages []atomic.Pointer[overflowPage]
}

// An overflowPage holds clients that do not fit into their cells. It is allocated on demand.
type overflowPage [overflowPageSize]atomic.Pointer[clientDetails]

const overflowPageSize = 512

func newCells(size int) *cells {
	t := &cells{
		list: make([]cell, size), secondHalves: make([]uint64, size),
		overflowPages: make([]atomic.Pointer[overflowPage], (size+overflowPageSize-1)/overflowPageSize),
	}
	preferLargePages(t.list)
	return t
}

// nonZero returns the half of a hash that cells are found by, which is never 0.
func nonZero(half uint64) uint64 { return max(half, 1) }

// begin returns the index at which a search begins; next returns the following one.
func (t *cells) begin(first uint64) int {
	at, _ := bits.Mul64(first, uint64(len(t.list)))
	return int(at)
}

func (t *cells) next(at int) int {
	if at++; at == len(t.list) {
		return 0
	}
	return at
}

// add stores a client in the first free cell.
func (t *cells) add(of valueHash, c Found) {
	first := nonZero(of[0])
	at := t.begin(first)
	for here := t.list[at].first.Load(); here != 0; here = t.list[at].first.Load() {
		if here == first && t.secondHalves[at] != of[1] {
			t.collisions.Store(true)
		}
		at = t.next(at)
	}
	t.secondHalves[at] = of[1]
	t.put(at, c)
	t.list[at].first.Store(first)
}

// put stores a client in a cell, or removes the one there if c is absent.
func (t *cells) put(at int, c Found) {
	word := c.word()
	if word == wordOverflow {
		t.overflow(at).Store(c.clientDetails)
	}
	if t.list[at].word.Swap(word) == wordOverflow && word != wordOverflow {
		t.overflow(at).Store(nil)
	}
}

// overflow returns the location of a client that does not fit into its cell.
func (t *cells) overflow(at int) *atomic.Pointer[clientDetails] {
	in := &t.overflowPages[at/overflowPageSize]
	if in.Load() == nil {
		in.Store(new(overflowPage))
	}
	return &in.Load()[at%overflowPageSize]
}

// search returns the index of the client with a hash, -1 if there is none.
func (t *cells) search(of valueHash) int {
	first := nonZero(of[0])
	for at := t.begin(first); ; at = t.next(at) {
		switch s := &t.list[at]; s.first.Load() {
		case 0:
			return -1
		case first:
			if t.secondHalves[at] == of[1] && s.word.Load() != wordFree {
				return at
			}
		}
	}
}

// matches reports whether a taken cell has a hash.
func (t *cells) matches(at int, of valueHash) bool {
	return t.list[at].first.Load() == nonZero(of[0]) && t.secondHalves[at] == of[1]
}

// hasCollisions reports whether findByHalf may return one client for another.
func (r *clientTable) hasCollisions() bool {
	t := r.cells.Load()
	return t != nil && t.collisions.Load()
}

// findByHalf returns the client whose hash has this first half, absent if there is none.
func (r *clientTable) findByHalf(half uint64) Found {
	t := r.cells.Load()
	if t == nil {
		return Found{}
	}
	first := nonZero(half)
	for at := t.begin(first); ; at = t.next(at) {
		switch t.list[at].first.Load() {
		case 0:
			return Found{}
		case first:
			if c := r.at(t, at); !c.Absent() {
				return c
			}
		}
	}
}

// at returns the client in a cell.
func (r *clientTable) at(t *cells, at int) Found {
	for {
		word := t.list[at].word.Load()
		switch word {
		case wordFree:
			return Found{}
		case wordOverflow:
			if c := t.overflow(at).Load(); c != nil {
				return c.record()
			}
			// A writer has changed the cell meanwhile.
		case wordNoGrants:
			return Found{clientDetails: noGrants}
		case wordUnlimited:
			return Found{clientDetails: unlimitedGrants}
		case wordBlocked:
			return Found{clientDetails: blockGrants}
		default:
			in := r.shapes.of(word)
			return Found{in.shape.details, in}
		}
	}
}

// find returns the client with a hash, absent if there is none.
func (r *clientTable) find(of valueHash) Found {
	t := r.cells.Load()
	if t == nil {
		return Found{}
	}
	at := t.search(of)
	if at < 0 {
		return Found{}
	}
	return r.at(t, at)
}

// add adds a client under a hash that has none.
func (r *clientTable) add(of valueHash, c Found) {
	r.reserve(1)
	r.cells.Load().add(of, c)
	r.used++
	r.count++
}

// replace replaces the client with a hash.
func (r *clientTable) replace(of valueHash, c Found) {
	t := r.cells.Load()
	t.put(t.search(of), c)
}

// remove removes the client with a hash. Its cell becomes free when the table is rebuilt.
func (r *clientTable) remove(of valueHash) {
	r.replace(of, Found{})
	r.count--
}

// reserve makes room for more clients. It rebuilds the table when 4 of 5 cells are taken, so that 3 of 5 are.
func (r *clientTable) reserve(more int) {
	old := r.cells.Load()
	if more == 0 || old != nil && (r.used+more)*5 <= len(old.list)*4 {
		return
	}
	next := newCells(max(16, (r.count+more)*5/3))
	r.used = r.count
	if old != nil {
		for at := range old.list {
			if c := r.at(old, at); !c.Absent() {
				next.add(valueHash{old.list[at].first.Load(), old.secondHalves[at]}, c)
			}
		}
	}
	r.cells.Store(next)
}
