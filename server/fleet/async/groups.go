package async

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// keyGroups tracks which key groups fail to be exchanged, and since when: one server of a cluster can be unreachable
// while the others are not. It is not safe for concurrent use.
type keyGroups struct {
	failing     uint64                         // groups that failed in their latest exchange
	since       [fleet.KeyGroups]time.Duration // when they started to fail, by the clock
	unreachable uint64                         // groups that have failed for so long that policies apply

	reported   bool
	reportedAt time.Duration // by the clock
}

// update adds the result of an exchange. Groups that have failed for as long as patience become unreachable.
func (p *keyGroups) update(tallies []ledger.Tally, missed []int, began, now, patience time.Duration) {
	if len(missed) == 0 && p.failing == 0 {
		return
	}
	var exchanged, failed uint64
	for i := range tallies {
		exchanged |= 1 << ledger.GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		failed |= 1 << ledger.GroupOf(&tallies[i].Key)
	}
	for rest := failed; rest != 0; rest &= rest - 1 {
		g := bits.TrailingZeros64(rest)
		if p.failing>>g&1 == 0 {
			p.since[g] = began
		}
		if now-p.since[g] >= patience {
			p.unreachable |= 1 << g
		}
	}
	p.failing = p.failing&^exchanged | failed
	p.unreachable &= p.failing
}

// addProbes adds a key to a batch for every group without one, while any group fails. So it is known which groups fail,
// and when one recovers, even if its keys are not requested while they are denied.
func (p *keyGroups) addProbes(b *exchange.Batch) {
	if p.failing == 0 {
		return
	}
	var exchanged uint64
	for i := range b.Tallies {
		exchanged |= 1 << ledger.GroupOf(&b.Tallies[i].Key)
	}
	for g := range fleet.KeyGroups {
		if exchanged>>g&1 == 1 {
			continue
		}
		key := ledger.Key{byte(g)} // any key of the group, as there is nothing to send
		b.Tallies = append(b.Tallies, ledger.Tally{Key: key})
		b.Notes = append(b.Notes, fleet.Note{Key: string(key[:]), Keep: exchange.MinKeep})
	}
}
