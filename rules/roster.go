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
// What a decision reads is small, since that is what its time depends on: a word for each place, in which there is a part of the
// sum, the tag, and the number of the kind of client. A million take little more than a processor's own cache.
type roster struct {
	kinds *kinds // nil if no client here is of a kind
	seats atomic.Pointer[seats]
	count int // clients
	used  int // places that are taken, or were
}

// kinds are clients that many are like, by their numbers.
type kinds [maxKinds + 1]atomic.Pointer[registered]

type seats struct {
	words []atomic.Uint64 // 0 where nobody was ever
	// What is behind a word stands apart, and before it is written.
	sums    []sum
	clients []atomic.Pointer[registered]
}

// A word is a tag, and in its low bits what is there: the number of a kind, or one of these.
const (
	kindBits = 16
	kindMask = 1<<kindBits - 1
	vacant   = 0        // somebody was there
	apart    = kindMask // a client of no kind
)

func tagOf(first uint64) uint64 { return max(first<<kindBits, 1<<kindBits) }

// wordOf returns the word for a client.
func wordOf(of sum, c *registered) uint64 {
	switch {
	case c == nil:
		return tagOf(of[0]) | vacant
	case c.page != nil:
		return tagOf(of[0]) | apart
	default:
		return tagOf(of[0]) | uint64(c.number)
	}
}

// begin returns the place at which a search begins, next the one after.
func (t *seats) begin(first uint64) int {
	place, _ := bits.Mul64(first, uint64(len(t.words)))
	return int(place)
}

func (t *seats) next(place int) int {
	if place++; place == len(t.words) {
		return 0
	}
	return place
}

// add takes the first free place.
func (t *seats) add(of sum, c *registered) {
	place := t.begin(of[0])
	for t.words[place].Load() != 0 {
		place = t.next(place)
	}
	t.sums[place] = of
	t.put(place, c)
}

// put puts a client in a place, or nobody.
func (t *seats) put(place int, c *registered) {
	if c != nil {
		t.clients[place].Store(c)
	}
	t.words[place].Store(wordOf(t.sums[place], c))
	if c == nil {
		t.clients[place].Store(nil)
	}
}

// search returns where the client of a sum is, -1 if there is none.
func (t *seats) search(of sum) int {
	for place := t.begin(of[0]); ; place = t.next(place) {
		word := t.words[place].Load()
		if word == 0 {
			return -1
		}
		if word&kindMask != vacant && word&^kindMask == tagOf(of[0]) && t.sums[place] == of {
			return place
		}
	}
}

// guess returns the client whose sum begins so, nil if there is none.
func (r *roster) guess(first uint64) *registered {
	t := r.seats.Load()
	if t == nil {
		return nil
	}
	tag := tagOf(first)
	for place := t.begin(first); ; place = t.next(place) {
		word := t.words[place].Load()
		if word == 0 {
			return nil
		}
		if word&^kindMask != tag {
			continue
		}
		if c := r.behind(t, place, word); c != nil {
			return c
		}
	}
}

// behind returns the client behind a word.
func (r *roster) behind(t *seats, place int, word uint64) *registered {
	for {
		var c *registered
		switch kind := word & kindMask; kind {
		case vacant:
			return nil
		case apart:
			return t.clients[place].Load()
		default:
			c = r.kinds[kind].Load()
		}
		// If it is another now, so may be who has the number.
		now := t.words[place].Load()
		if now == word {
			return c
		}
		word = now
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
	return t.clients[place].Load()
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
	t.put(t.search(of), c)
}

// remove removes the client that is there. Its place is free again when the seats are made anew.
func (r *roster) remove(of sum) {
	r.replace(of, nil)
	r.count--
}

// reserve makes room for as many more. The seats are made anew when 4 of 5 places are taken, so that 3 of 5 are.
func (r *roster) reserve(more int) {
	old := r.seats.Load()
	if more == 0 || old != nil && (r.used+more)*5 <= len(old.words)*4 {
		return
	}
	size := max(16, (r.count+more)*5/3)
	made := &seats{make([]atomic.Uint64, size), make([]sum, size), make([]atomic.Pointer[registered], size)}
	preferLargePages(made.words)
	r.used = r.count
	if old != nil {
		for place := range old.words {
			if c := old.clients[place].Load(); c != nil {
				made.add(old.sums[place], c)
			}
		}
	}
	r.seats.Store(made)
}
