package async

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// keyGroups tracks for which key groups exchanges fail, and since when. One server of a cluster, which has some of the
// groups, can be unreachable while the other servers are reachable. It is not safe for concurrent use.
type keyGroups struct {
	failing     uint64                         // groups that failed in their latest exchange
	since       [fleet.KeyGroups]time.Duration // when they started to fail, by the clock
	unreachable uint64                         // groups that have failed for so long that policies apply

	reported   bool
	reportedAt time.Duration // by the clock
}

// update adds the result of an exchange. Groups that have failed for as long as patience become unreachable.
func (g *keyGroups) update(tallies []tally.Tally, missed []int, began, now, patience time.Duration) {
	if len(missed) == 0 && g.failing == 0 {
		return
	}
	var exchanged, failed uint64
	for i := range tallies {
		exchanged |= 1 << tally.GroupOf(&tallies[i].Key)
	}
	for _, i := range missed {
		failed |= 1 << tally.GroupOf(&tallies[i].Key)
	}
	for rest := failed; rest != 0; rest &= rest - 1 {
		group := bits.TrailingZeros64(rest)
		if g.failing>>group&1 == 0 {
			g.since[group] = began
		}
		if now-g.since[group] >= patience {
			g.unreachable |= 1 << group
		}
	}
	g.failing = g.failing&^exchanged | failed
	g.unreachable &= g.failing
}

// addProbes adds a key to a batch for every group without a key in it, while any group fails. So the node finds out
// which groups fail, and when a group recovers, even if no key of the group is requested meanwhile.
func (g *keyGroups) addProbes(b *exchange.Batch) {
	if g.failing == 0 {
		return
	}
	var exchanged uint64
	for i := range b.Tallies {
		exchanged |= 1 << tally.GroupOf(&b.Tallies[i].Key)
	}
	for group := range fleet.KeyGroups {
		if exchanged>>group&1 == 1 {
			continue
		}
		key := tally.Key{byte(group)} // any key of the group, as there is nothing to send
		b.Tallies = append(b.Tallies, tally.Tally{Key: key})
		b.Notes = append(b.Notes, fleet.Note{Key: string(key[:]), Keep: exchange.MinKeep})
	}
}
