package rules

import (
	"math/bits"
	"sync/atomic"
)

// A sum is what is known of a value: two keyed hashes of 64 bits.
type sum [2]uint64

// A roster is a table of clients by the sums of values, with linear probing. Reading takes no lock; those who change it take
// turns.
//
// The time of a decision depends on how often it must wait for memory. So one half of the sum and what most clients have stand
// side by side, and everything else stands apart.
type roster struct {
	shapes *shapes // of the clients' limits
	seats  atomic.Pointer[seats]
	count  int // clients
	used   int // seats that are taken, or were
}

// A seat is where one client is found, as long as there are these seats.
type seat struct {
	first atomic.Uint64 // half of the sum; 0 where nobody was ever
	word  atomic.Uint64 // a short limit, or one of these
}

// Numbers that no shape has.
const (
	vacant = 0 // nobody is there any more
	apart  = numberMask - iota
	asNothing
	asEverything
	asBlocked
)

type seats struct {
	list []seat
	// twins tells that two sums have the same first half, so that one is not enough. It will hardly ever happen.
	twins atomic.Bool
	// The other halves of the sums, and what is no short limit, stand apart. Both are there before the seat is taken.
	rest    []uint64
	clients []atomic.Pointer[annex]
}

// An annex is where clients are that have more than their seats have room for. Many rosters need none.
type annex [annexSeats]atomic.Pointer[registered]

const annexSeats = 512

func newSeats(size int) *seats {
	made := &seats{
		list: make([]seat, size), rest: make([]uint64, size), clients: make([]atomic.Pointer[annex], (size+annexSeats-1)/annexSeats),
	}
	preferLargePages(made.list)
	return made
}

// firstOf returns the half of a sum by which seats are found, which is never 0.
func firstOf(half uint64) uint64 { return max(half, 1) }

// begin returns the seat at which a search begins, next the one after.
func (t *seats) begin(first uint64) int {
	at, _ := bits.Mul64(first, uint64(len(t.list)))
	return int(at)
}

func (t *seats) next(at int) int {
	if at++; at == len(t.list) {
		return 0
	}
	return at
}

// add takes the first free seat.
func (t *seats) add(of sum, c found) {
	first := firstOf(of[0])
	at := t.begin(first)
	for here := t.list[at].first.Load(); here != 0; here = t.list[at].first.Load() {
		if here == first && t.rest[at] != of[1] {
			t.twins.Store(true)
		}
		at = t.next(at)
	}
	t.rest[at] = of[1]
	t.put(at, c)
	t.list[at].first.Store(first)
}

// put gives a seat to a client, or to nobody.
func (t *seats) put(at int, c found) {
	word := c.word()
	if word == apart {
		t.annex(at).Store(c.registered)
	}
	if t.list[at].word.Swap(word) == apart && word != apart {
		t.annex(at).Store(nil)
	}
}

// annex returns where the client of a seat is that has more than the seat has room for.
func (t *seats) annex(at int) *atomic.Pointer[registered] {
	in := &t.clients[at/annexSeats]
	if in.Load() == nil {
		in.Store(new(annex))
	}
	return &in.Load()[at%annexSeats]
}

// search returns where the client of a sum is, -1 if there is none.
func (t *seats) search(of sum) int {
	first := firstOf(of[0])
	for at := t.begin(first); ; at = t.next(at) {
		switch s := &t.list[at]; s.first.Load() {
		case 0:
			return -1
		case first:
			if t.rest[at] == of[1] && s.word.Load() != vacant {
				return at
			}
		}
	}
}

// is tells whether a seat that is taken is that of a sum.
func (t *seats) is(at int, of sum) bool {
	return t.list[at].first.Load() == firstOf(of[0]) && t.rest[at] == of[1]
}

// doubtful tells that guess may have returned one client for another.
func (r *roster) doubtful() bool {
	t := r.seats.Load()
	return t != nil && t.twins.Load()
}

// guess returns the client whose sum has this half, nobody if there is none.
func (r *roster) guess(half uint64) found {
	t := r.seats.Load()
	if t == nil {
		return found{}
	}
	first := firstOf(half)
	for at := t.begin(first); ; at = t.next(at) {
		switch t.list[at].first.Load() {
		case 0:
			return found{}
		case first:
			if c := r.at(t, at); !c.nobody() {
				return c
			}
		}
	}
}

// at returns who is in a seat.
func (r *roster) at(t *seats, at int) found {
	for {
		word := t.list[at].word.Load()
		switch word {
		case vacant:
			return found{}
		case apart:
			if c := t.annex(at).Load(); c != nil {
				return c.apart()
			}
			// It is another by now.
		case asNothing:
			return found{registered: nothing}
		case asEverything:
			return found{registered: everything}
		case asBlocked:
			return found{registered: blocked}
		default:
			in := r.shapes.of(word)
			return found{in.shape.as, in}
		}
	}
}

// find returns the client of a sum, nobody if there is none.
func (r *roster) find(of sum) found {
	t := r.seats.Load()
	if t == nil {
		return found{}
	}
	at := t.search(of)
	if at < 0 {
		return found{}
	}
	return r.at(t, at)
}

// add adds a client that is not there under this sum.
func (r *roster) add(of sum, c found) {
	r.reserve(1)
	r.seats.Load().add(of, c)
	r.used++
	r.count++
}

// replace puts a client in the place of the one that is there.
func (r *roster) replace(of sum, c found) {
	t := r.seats.Load()
	t.put(t.search(of), c)
}

// remove removes the client that is there. Its seat is free again when the seats are made anew.
func (r *roster) remove(of sum) {
	r.replace(of, found{})
	r.count--
}

// reserve makes room for as many more. The seats are made anew when 4 of 5 are taken, so that 3 of 5 are.
func (r *roster) reserve(more int) {
	old := r.seats.Load()
	if more == 0 || old != nil && (r.used+more)*5 <= len(old.list)*4 {
		return
	}
	made := newSeats(max(16, (r.count+more)*5/3))
	r.used = r.count
	if old != nil {
		for at := range old.list {
			if c := r.at(old, at); !c.nobody() {
				made.add(sum{old.list[at].first.Load(), old.rest[at]}, c)
			}
		}
	}
	r.seats.Store(made)
}
