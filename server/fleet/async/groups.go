package async

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// keyGroups tracks for which groups of keys exchanges fail, and since when. In a cluster, each server has some of the
// groups, so they fail independently. Sets of groups have one bit for each group. keyGroups is not safe for concurrent
// use.
type keyGroups struct {
	failing     uint64                         // groups whose latest exchange failed
	since       [fleet.KeyGroups]time.Duration // when each group started to fail, by the Limiter's clock
	unreachable uint64                         // groups that have failed for so long that policies apply

	reported   bool
	reportedAt time.Duration // by the Limiter's clock
}

// update records the result of an exchange. Groups that have failed for at least the duration unreachableAfter become
// unreachable. missed has the indices of tallies that were not exchanged.
func (g *keyGroups) update(tallies []tally.Tally, missed []int, startedAt, now, unreachableAfter time.Duration) {
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
			g.since[group] = startedAt
		}
		if now-g.since[group] >= unreachableAfter {
			g.unreachable |= 1 << group
		}
	}
	g.failing = g.failing&^exchanged | failed
	g.unreachable &= g.failing
}

// addProbes does nothing unless a group fails. Then it adds one key to the batch for every group that has none in it.
// So the node finds out which groups fail and when they recover, even if no key of a group is requested.
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
		key := tally.Key{byte(group)} // any key of the group will do, because the note is empty
		b.Tallies = append(b.Tallies, tally.Tally{Key: key})
		b.Notes = append(b.Notes, fleet.Note{Key: string(key[:]), Keep: exchange.MinKeep})
	}
}
