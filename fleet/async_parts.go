package fleet

import (
	"math/bits"
	"time"
)

// parts knows of which groups of keys an exchange does not take notes, and since when: one server of a cluster can be away
// while the others are not. Rounds use it, one at a time.
type parts struct {
	bad   uint64                // groups that were missed when they were last exchanged
	since [Groups]time.Duration // by the clock: for how long they have been
	cut   uint64                // groups that have been bad for so long that policies apply

	told   bool
	toldAt time.Duration // by the clock
}

// note takes in an exchange of some keys that began at a time. Groups that have been missed for as long as patience are cut.
func (p *parts) note(tallies []Tally, missed []int, began, now, patience time.Duration) {
	if len(missed) == 0 && p.bad == 0 {
		return
	}
	var met, bad uint64
	for i := range tallies {
		met |= 1 << groupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		bad |= 1 << groupOf(&tallies[i].Key)
	}
	for rest := bad; rest != 0; rest &= rest - 1 {
		g := bits.TrailingZeros64(rest)
		if p.bad>>g&1 == 0 {
			p.since[g] = began
		}
		if now-p.since[g] >= patience {
			p.cut |= 1 << g
		}
	}
	p.bad = p.bad&^met | bad
	p.cut &= p.bad
}

// ask adds a key to a batch for every group that has none in it, while any is bad: it shows whether all are, or which; and
// when one is well again, though nobody may ask for its keys as long as they are denied.
func (p *parts) ask(b *batch) {
	if p.bad == 0 {
		return
	}
	var met uint64
	for i := range b.tallies {
		met |= 1 << groupOf(&b.tallies[i].Key)
	}
	for g := range Groups {
		if met>>g&1 == 1 {
			continue
		}
		key := Key{byte(g)} // as good as any: there is nothing to tell of it
		b.tallies = append(b.tallies, Tally{Key: key})
		b.keys, b.notes = append(b.keys, string(key[:])), append(b.notes, "")
		b.keep, b.all = append(b.keep, minKeep), append(b.all, false)
	}
}
