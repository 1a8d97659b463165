package region

import (
	"context"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// noteLearned ends the lookups of keys whose consumption in other regions is known now: keys that this node sent and
// whose growth is charged, and keys that another node sends and has learned. Nodes that wait for this one can see it in
// the RegionStore.
func (g *Limiter) noteLearned(ctx context.Context, reports []report) {
	if len(reports) == 0 {
		return
	}
	l := g.ledger
	var exchanged, failed uint64
	var sent []ledger.Tally
	waiting := false
	for i := range reports {
		t, r := &g.batch.Tallies[i], &reports[i]
		switch {
		case r.failed:
			failed |= 1 << ledger.GroupOf(&t.Key)
			l.LookedUp(t, false)
		case r.Sender:
			exchanged |= 1 << ledger.GroupOf(&t.Key)
			if t.Unlearned {
				sent = append(sent, *t)
			}
			l.LookedUp(t, true)
		case r.Learned:
			exchanged |= 1 << ledger.GroupOf(&t.Key)
			l.LookedUp(t, true)
		case t.Unlearned:
			waiting = l.LookUpAgain(t) || waiting
		}
	}
	l.LookupsDone(exchanged|failed, failed)
	if len(sent) > 0 {
		if _, _, err := g.report(ctx, sent, true); err != nil {
			g.link.Counters.Failures.Add(1) // the next report includes it
		}
	}
	if waiting {
		g.rounds.Hurry()
	}
}
