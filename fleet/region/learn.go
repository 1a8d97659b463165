package region

import (
	"context"

	"github.com/headgate/headgate/fleet/internal/ledger"
)

// learned notes of which keys it is known now what other regions consumed. Those are keys that this node has spoken for, and
// whose news is charged; and those that another node of the region speaks for, and knows. Nodes that wait for this one are told.
func (g *Limiter) learned(ctx context.Context, reports []report) {
	if len(reports) == 0 {
		return
	}
	l := g.ledger
	var met, failed uint64
	var spoken []ledger.Tally
	again := false
	for i := range reports {
		t, r := &g.batch.Tallies[i], &reports[i]
		switch {
		case r.failed:
			failed |= 1 << ledger.GroupOf(&t.Key)
			l.LookedUp(t, false)
		case r.speaks:
			met |= 1 << ledger.GroupOf(&t.Key)
			if t.Unlearned {
				spoken = append(spoken, *t)
			}
			l.LookedUp(t, true)
		case r.known:
			met |= 1 << ledger.GroupOf(&t.Key)
			l.LookedUp(t, true)
		case t.Unlearned:
			again = l.LookUpAgain(t) || again
		}
	}
	l.LookupsDone(met|failed, failed)
	if len(spoken) > 0 {
		if _, _, err := g.report(ctx, spoken, true); err != nil {
			g.counters.Failures.Add(1) // they are told with the next report
		}
	}
	if again {
		g.rounds.Hurry()
	}
}
