package async

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/exchange"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

// parts knows of which groups of keys an exchange does not take notes, and since when: one server of a cluster can be away
// while the others are not. Rounds use it, one at a time.
type parts struct {
	bad   uint64                         // groups that were missed when they were last exchanged
	since [fleet.KeyGroups]time.Duration // by the clock: for how long they have been
	cut   uint64                         // groups that have been bad for so long that policies apply

	told   bool
	toldAt time.Duration // by the clock
}

// note takes in an exchange of some keys that began at a time. Groups that have been missed for as long as patience are cut.
func (p *parts) note(tallies []ledger.Tally, missed []int, began, now, patience time.Duration) {
	if len(missed) == 0 && p.bad == 0 {
		return
	}
	var met, bad uint64
	for i := range tallies {
		met |= 1 << ledger.GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		bad |= 1 << ledger.GroupOf(&tallies[i].Key)
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
func (p *parts) ask(b *exchange.Batch) {
	if p.bad == 0 {
		return
	}
	var met uint64
	for i := range b.Tallies {
		met |= 1 << ledger.GroupOf(&b.Tallies[i].Key)
	}
	for g := range fleet.KeyGroups {
		if met>>g&1 == 1 {
			continue
		}
		key := ledger.Key{byte(g)} // as good as any: there is nothing to tell of it
		b.Tallies = append(b.Tallies, ledger.Tally{Key: key})
		b.Keys, b.Notes = append(b.Keys, string(key[:])), append(b.Notes, "")
		b.Keep, b.AllNotes = append(b.Keep, exchange.MinKeep), append(b.AllNotes, false)
	}
}
