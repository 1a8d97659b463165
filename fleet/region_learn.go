package fleet

import "context"

// learned notes of which keys it is known now what other regions consumed. Those are keys that this node has spoken for, and
// whose news is charged; and those that another node of the region speaks for, and knows. Nodes that wait for this one are told.
func (g *Region) learned(ctx context.Context, reports []report) {
	if len(reports) == 0 {
		return
	}
	l := g.ledger
	var met, failed uint64
	var spoken []Tally
	again := false
	for i := range reports {
		t, r := &g.batch.tallies[i], &reports[i]
		switch {
		case r.failed:
			failed |= 1 << groupOf(&t.Key)
			l.lookedUp(t, false)
		case r.speaks:
			met |= 1 << groupOf(&t.Key)
			if t.unlearned {
				spoken = append(spoken, *t)
			}
			l.lookedUp(t, true)
		case r.known:
			met |= 1 << groupOf(&t.Key)
			l.lookedUp(t, true)
		case t.unlearned:
			again = l.lookUpAgain(t) || again
		}
	}
	l.hears(met|failed, failed)
	if len(spoken) > 0 {
		if _, _, err := g.report(ctx, spoken, true); err != nil {
			g.counters.failures.Add(1) // they are told with the next report
		}
	}
	if again {
		g.rounds.hurry()
	}
}
