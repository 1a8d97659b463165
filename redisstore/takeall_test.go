package redisstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// If another owner's limit denies, the decisions about refunded checks show the state after the refund.
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

// A refund takes longer than its caller waits: the server is stopped, and later replies that the key has
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
		store: s, keys: s.keys.Load(), checks: []headgate.Check{c}, decisions: make([]headgate.Decision, 1), before: make([]priorState, 1),
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

func TestLaterDenialReturnsUnitsOfEarlierOwners(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	own := headgate.Check{Owner: "alice", Key: "alice/own", Limit: headgate.MustParseLimit("10/h"), Cost: 1}
	shared := headgate.Check{Owner: "tenant", Key: "tenant/all", Limit: headgate.MustParseLimit("3/h"), Cost: 1}
	look := func(c headgate.Check) int64 {
		c.Cost = 0
		return mustTake(t, s, c).Remaining
	}
	for range 3 {
		ds, err := s.TakeAll(ctx, []headgate.Check{own, shared}, nil)
		if err != nil || !headgate.Allowed(ds) {
			t.Fatalf("%+v, %v: want both to allow", ds, err)
		}
	}
	ds, err := s.TakeAll(ctx, []headgate.Check{own, shared}, nil)
	if err != nil || !ds[0].Allowed || ds[1].Allowed || ds[0].Remaining != 7 || ds[0].Receipt != (headgate.Receipt{}) {
		t.Errorf("%+v, %v: want the tenant's limit to deny, and alice's as it was", ds, err)
	}
	if look(own) != 7 {
		t.Errorf("alice has %d left, want 7: what the tenant's limit denied is given back", look(own))
	}
	greedy := own
	greedy.Cost = 8
	server.ResetStats()
	ds, err = s.TakeAll(ctx, []headgate.Check{greedy, shared}, nil)
	if err != nil || ds[0].Allowed || !ds[1].Allowed || ds[1].Limit != 0 {
		t.Errorf("%+v, %v: want alice's own limit to deny and the tenant's not to be asked", ds, err)
	}
	if calls := server.CommandStats()["evalsha"]; calls != 1 {
		t.Errorf("%d calls, want one: the tenant's limit is not asked", calls)
	}
}

func TestGreedyClientDoesNotDrainItsTenant(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	tenant := headgate.Check{Owner: "tenant", Key: "tenant", Limit: headgate.MustParseLimit("200/s fixed-window"), Cost: 1}
	const honest, rate = 17, 10 // 170 a second, and the greedy one's own 10: nine tenths of what the tenant has
	own := func(i int) headgate.Check {
		client := fmt.Sprint("client", i)
		return headgate.Check{Owner: client, Key: client, Limit: headgate.MustParseLimit("10/s burst 10"), Cost: 1}
	}
	end := time.Now().Add(3 * time.Second)
	var asked, denied, greedy atomic.Int64
	going := func() bool { // on a busy machine it takes longer until the greedy one is that
		return time.Now().Before(end) || greedy.Load() < 500 && time.Now().Before(end.Add(time.Minute))
	}
	var group sync.WaitGroup
	for i := range honest {
		group.Go(func() {
			for tick := time.NewTicker(time.Second / rate * 21 / 20); going(); <-tick.C {
				asked.Add(1)
				ds, err := s.TakeAll(ctx, []headgate.Check{own(i), tenant}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if !headgate.Allowed(ds) {
					denied.Add(1)
				}
			}
		})
	}
	for range 5 { // fifty times its limit, together
		group.Go(func() {
			for tick := time.NewTicker(time.Second / 100); going(); <-tick.C {
				ds, err := s.TakeAll(ctx, []headgate.Check{own(honest), tenant}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if !headgate.Allowed(ds) {
					greedy.Add(1)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d of %d honest requests were denied, and %d greedy ones", denied.Load(), asked.Load(), greedy.Load())
	if denied.Load() > 0 || greedy.Load() < 500 {
		t.Errorf("%d honest requests and %d greedy ones were denied, want 0 and 500", denied.Load(), greedy.Load())
	}
}
