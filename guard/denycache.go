package guard

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	denySets = 4096 // powers of two
	denyWays = 4
	denyGens = 16384

	// longKeyBytes is from when on a key is long, and maxLongBytes what all of those may take.
	longKeyBytes = 256
	maxLongBytes = 16 << 20
)

// A denyCache remembers denials, those of one hash in one of the places that are for it. Nobody waits for anybody: its
// places are swapped. A key may stand in two of them for a while, which does no harm.
type denyCache struct {
	seed maphash.Seed
	hold int64 // µs
	sets [denySets][denyWays]atomic.Pointer[denial]
	// gens count how often something that may end a denial was done to the keys of a hash, so that an answer from before
	// that is not remembered after it.
	gens [denyGens]atomic.Uint32
	long atomic.Int64 // bytes of long keys
}

func newDenyCache(hold int64) *denyCache {
	return &denyCache{seed: maphash.MakeSeed(), hold: hold}
}

func (t *denyCache) hash(c *headgate.Check) uint64 { return maphash.String(t.seed, c.Key) }

func (t *denyCache) set(hash uint64) *[denyWays]atomic.Pointer[denial] { return &t.sets[hash%denySets] }

func (t *denyCache) gen(hash uint64) *atomic.Uint32 { return &t.gens[hash%denyGens] }

// lookup returns the denial of a check that is remembered.
func (t *denyCache) lookup(hash uint64, c *headgate.Check, now int64) (headgate.Decision, bool) {
	set := t.set(hash)
	for i := range set {
		if e := set[i].Load(); e != nil && e.is(hash, c) {
			if d, ok := e.answer(c.Cost, now); ok {
				return d, true
			}
		}
	}
	return headgate.Decision{}, false
}

// find returns what was remembered last about a check's key and limit, or nil.
func (t *denyCache) find(hash uint64, c *headgate.Check) *denial {
	set := t.set(hash)
	var last *denial
	for i := range set {
		if e := set[i].Load(); e != nil && e.is(hash, c) && (last == nil || e.asked > last.asked) {
			last = e
		}
	}
	return last
}

// doubt returns for how long, in µs, it is not known whether a check that was denied passes by now. It was looked up.
func (t *denyCache) doubt(hash uint64, c *headgate.Check, now int64) int64 {
	if isEstimate(c) {
		return 0
	}
	if e := t.find(hash, c); e != nil {
		return e.doubt(c.Cost, now)
	}
	return 0
}

// learn takes in the answer to a check that was asked and answered at these times, and had the generation gen when it was
// asked. It returns what the answer denies, which it may not remember, or nil.
func (t *denyCache) learn(hash uint64, c *headgate.Check, asked, answered int64, gen uint32, d *headgate.Decision) *denial {
	if d.Allowed && c.Cost == 0 {
		return nil
	}
	old := t.find(hash, c)
	var e *denial
	if !d.Allowed || old != nil && d.Remaining <= 0 {
		// A key that was denied lately will be again, and if nothing remains now we may know when. Others do not get a place
		// for that.
		e = denialOf(hash, c, asked, t.hold, d, old)
	}
	var kept *denial
	if e != nil {
		e.span = max(0, answered-asked)
		if t.put(e, gen, asked) {
			kept = e
		}
	}
	if d.Allowed {
		t.outdate(hash, c, asked, kept)
	}
	return e
}

// outdate forgets what is remembered about a check's key, under any limit, up to a time and but for one. Of the check's own
// limit it remembers that there was something.
func (t *denyCache) outdate(hash uint64, c *headgate.Check, asked int64, kept *denial) {
	set := t.set(hash)
	for i := range set {
		old := set[i].Load()
		switch {
		case old == nil || old == kept || old.hash != hash || old.key != c.Key || old.asked > asked:
		case kept != nil || !old.is(hash, c):
			t.take(&set[i], old)
		case old.until > old.asked:
			spent := *old
			spent.until, spent.steps = spent.asked, nil
			set[i].CompareAndSwap(old, &spent)
		}
	}
}

// put remembers e, unless something has happened to its key since its generation, or more is known already.
func (t *denyCache) put(e *denial, gen uint32, now int64) bool {
	g := t.gen(e.hash)
	size := longBytes(e)
	if g.Load() != gen || size > 0 && t.long.Load()+size > maxLongBytes {
		return false
	}
	e.key, e.owner = strings.Clone(e.key), strings.Clone(e.owner)
	place := t.place(e, now)
	for old := place.Load(); ; old = place.Load() {
		if old != nil && old.asked > e.asked && e.same(old) {
			return false
		}
		if place.CompareAndSwap(old, e) {
			t.long.Add(size - longBytes(old))
			break
		}
	}
	if g.Load() != gen {
		t.take(place, e)
		return false
	}
	return true
}

// place returns where to put e: where its key and limit are, else where nobody is, else where the oldest is.
func (t *denyCache) place(e *denial, now int64) *atomic.Pointer[denial] {
	set := t.set(e.hash)
	worst, best := 0, int64(forever)
	for i := range set {
		other := set[i].Load()
		rank := int64(-1)
		switch {
		case other == nil:
		case e.same(other):
			return &set[i]
		case other.until <= now:
			rank = 0
		default:
			rank = max(1, other.asked)
		}
		if rank < best {
			worst, best = i, rank
		}
	}
	return &set[worst]
}

// take empties a place that e still has.
func (t *denyCache) take(place *atomic.Pointer[denial], e *denial) {
	if place.CompareAndSwap(e, nil) {
		t.long.Add(-longBytes(e))
	}
}

// drop forgets what is remembered about a key, whatever its limit, and what answers that are under way will tell.
func (t *denyCache) drop(hash uint64, key string) {
	t.gen(hash).Add(1)
	set := t.set(hash)
	for i := range set {
		if old := set[i].Load(); old != nil && old.hash == hash && old.key == key {
			t.take(&set[i], old)
		}
	}
}

func longBytes(e *denial) int64 {
	if e == nil || len(e.key)+len(e.owner) <= longKeyBytes {
		return 0
	}
	return int64(len(e.key) + len(e.owner))
}
