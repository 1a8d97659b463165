package rules

import (
	"math/bits"
	"sync/atomic"
)

// A sum is what is known of a value: two keyed hashes, of which the first is never 0.
type sum [2]uint64

// A roster is a table of clients by the sums of values, with linear probing. Reading takes no lock; those who change it take
// turns.
type roster struct {
	seats atomic.Pointer[seats]
	count int // clients
	used  int // seats that are taken, or were
}

// seats have the first halves of sums beside clients, so that a search reads few places that lie together, and the second halves
// apart. A first half of 0 ends it; where there is one and nobody, there was somebody.
type seats struct {
	places []seat
	second []uint64 // written before the first half is, and never again
}

type seat struct {
	first  atomic.Uint64
	client atomic.Pointer[registered]
}

// begin returns the place at which the search for the first half of a sum begins, next the one after.
func (t *seats) begin(first uint64) int {
	place, _ := bits.Mul64(first, uint64(len(t.places)))
	return int(place)
}

func (t *seats) next(place int) int {
	if place++; place == len(t.places) {
		return 0
	}
	return place
}

// add takes the first free place. The client is there before the sum that leads to it.
func (t *seats) add(of sum, c *registered) {
	place := t.begin(of[0])
	for t.places[place].first.Load() != 0 {
		place = t.next(place)
	}
	t.places[place].client.Store(c)
	t.second[place] = of[1]
	t.places[place].first.Store(of[0])
}

// search returns where the client of a sum is, -1 if there is none.
func (t *seats) search(of sum) int {
	for place := t.begin(of[0]); ; place = t.next(place) {
		switch s := &t.places[place]; s.first.Load() {
		case 0:
			return -1
		case of[0]:
			if s.client.Load() != nil && t.second[place] == of[1] {
				return place
			}
		}
	}
}

// guess returns the client of whom the first half of a sum is known, nil if there is none.
func (r *roster) guess(first uint64) *registered {
	t := r.seats.Load()
	if t == nil {
		return nil
	}
	for place := t.begin(first); ; place = t.next(place) {
		switch s := &t.places[place]; s.first.Load() {
		case 0:
			return nil
		case first:
			if c := s.client.Load(); c != nil {
				return c
			}
		}
	}
}

// find returns the client of a sum, nil if there is none.
func (r *roster) find(of sum) *registered {
	t := r.seats.Load()
	if t == nil {
		return nil
	}
	place := t.search(of)
	if place < 0 {
		return nil
	}
	return t.places[place].client.Load()
}

// add adds a client that is not there under this sum.
func (r *roster) add(of sum, c *registered) {
	r.reserve(1)
	r.seats.Load().add(of, c)
	r.used++
	r.count++
}

// replace puts a client in the place of the one that is there.
func (r *roster) replace(of sum, c *registered) {
	t := r.seats.Load()
	t.places[t.search(of)].client.Store(c)
}

// remove removes the client that is there. Its place is free again when the seats are made anew.
func (r *roster) remove(of sum) {
	r.replace(of, nil)
	r.count--
}

// reserve makes room for as many more. The seats are made anew when 2 of 3 are taken, so that every other is.
func (r *roster) reserve(more int) {
	old := r.seats.Load()
	if more == 0 || old != nil && (r.used+more)*3 <= len(old.places)*2 {
		return
	}
	size := max(16, (r.count+more)*2)
	made := &seats{make([]seat, size), make([]uint64, size)}
	preferLargePages(made.places)
	r.used = r.count
	if old != nil {
		for place := range old.places {
			if s := &old.places[place]; s.client.Load() != nil {
				made.add(sum{s.first.Load(), old.second[place]}, s.client.Load())
			}
		}
	}
	r.seats.Store(made)
}
