package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// Units that one owner's limits took and returned, as another's denied, leave decisions that say how the keys are.
func TestRefundedChecksHaveCurrentDecisions(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	base := open(t, server.URL(), Options{Secret: testSecret})
	texts := []string{
		"10/m", "10/m gcra", "10/m leaky-bucket", "10/m fixed-window", "10/m fixed-window staggered", "10/m sliding-log",
		"10/m sliding-window", "10/m sliding-buckets 6", "10 concurrent ttl 1m",
	}
	for _, l := range countingLimits("10/m") {
		texts = append(texts, l.text)
	}
	for _, text := range texts {
		for _, split := range []int{0, 2} {
			clock := limittest.NewClock()
			s := apart(base, clock.Now)
			own := headgate.Check{Key: "own", Owner: "alice", Limit: headgate.MustParseLimit(text), Cost: 1, Split: split}
			together := headgate.Check{Key: "together", Owner: "alice", Limit: own.Limit, Cost: 1}
			shared := headgate.Check{Key: "shared", Owner: "tenant", Limit: headgate.PerHour(1), Cost: 1}
			for range 3 {
				mustTake(t, s, own)
				mustTake(t, s, together)
				clock.Advance(time.Second)
			}
			mustTake(t, s, shared)
			ds, err := s.TakeAll(ctx, []headgate.Check{own, together, shared}, nil)
			if err != nil || len(ds) != 3 || ds[2].Allowed {
				t.Fatalf("%s: %+v, %v; want the last to deny", text, ds, err)
			}
			for i, c := range []headgate.Check{own, together} {
				c.Cost = 0
				looks := make([]headgate.Decision, 50) // of a key that is split, each is about a part of it
				found := false
				for j := range looks {
					looks[j] = mustTake(t, s, c)
					found = found || looks[j] == ds[i]
				}
				if !found || ds[i].ResetAfter == 0 && i == 1 {
					t.Errorf("%s, split %d, check %d: got %+v, want one of %+v", text, split, i, ds[i], looks[:2])
				}
			}
		}
	}
}

// A refund takes longer than its caller is held: the server is stopped, and when it goes on it says that the key has
// moved.
func testRefundsWaitForASlowServerAndASlotThatMoves(t *testing.T, cluster *redistest.ClusterSet) {
	s := open(t, cluster.URL(), Options{Secret: testSecret, HangTimeout: unhurried})
	c := headgate.Check{Owner: "alice", Key: "alice/hour", Limit: headgate.PerHour(10), Cost: 3}
	slot := redistest.SlotOf(s.keys.Load().key(c.Owner, c.Key, unsplit, ""))
	from, to := cluster.PrimaryOfSlot(slot), cluster.Servers()[0]
	if from == to {
		to = cluster.Servers()[1]
	}
	b := batch{
		store: s, keys: s.keys.Load(), checks: []headgate.Check{c}, decisions: make([]headgate.Decision, 1), before: make([]foundState, 1),
	}
	if allowed, err := b.takeOne(within(t, unhurried), 0); err != nil || !allowed {
		t.Fatalf("allowed %v, %v; want it allowed", allowed, err)
	}
	move := cluster.BeginMove(slot, to)
	for move.MoveKeys(100) > 0 {
	}
	from.Pause()
	b.refund(within(t, unhurried), []int{0})
	from.Resume()
	c.Cost = 0
	await.Equal(t, "remaining", func() int64 { return mustTake(t, s, c).Remaining }, 10)
	if lost := s.LostRefunds(); lost != 0 {
		t.Errorf("%d units were lost", lost)
	}
	move.Finish()
}
