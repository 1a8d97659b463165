package memstore

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
)

// A key that comes with others may need room, and to make it the others are moved. What is taken from them is taken
// where they are then.
func TestTakeAllWhileItsOwnKeysAreMoved(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	ctx := context.Background()
	limit := headgate.MustParseLimit("90000/d")
	const old, rounds = 15, 8_000 + 32_000/racing.Slower
	checks := make([]headgate.Check, old+1)
	for i := range checks {
		checks[i] = headgate.Check{Key: "old" + key(i), Limit: limit, Cost: 1}
	}
	dst := make([]headgate.Decision, 0, len(checks))
	for round := range int64(rounds) {
		at := int(round) % len(checks) // the new one stands anywhere among them
		last := checks[at].Key
		checks[at].Key = key(int(round))
		ds, err := s.TakeAll(ctx, checks, dst)
		if err != nil || !headgate.Allowed(ds) {
			t.Fatalf("round %d: %+v, %v", round, ds, err)
		}
		checks[at].Key = last
		for i, d := range ds {
			want := limit.Count - 1
			if i != at {
				// Every 16th round it was not asked.
				asked := round + 1 - (round+int64(len(checks)-1-i))/int64(len(checks))
				want = limit.Count - asked
			}
			if d.Remaining != want {
				t.Fatalf("round %d, key %d: %d remaining, want %d", round, i, d.Remaining, want)
			}
		}
	}
	for i := range checks {
		if d := take(t, s, "old"+key(i), limit.String(), 0); d.Remaining != limit.Count-rounds*int64(old)/int64(len(checks)) {
			t.Errorf("key %d: %d remaining, want %d", i, d.Remaining, limit.Count-rounds*int64(old)/int64(len(checks)))
		}
	}
}

// What a TakeAll took from one record before another check was denied is put back, and so is how long the record is
// kept.
func TestDeniedTakeAllLeavesRecordsAsTheyWere(t *testing.T) {
	for _, limit := range everyAlgorithm {
		for _, before := range []int64{0, 2} { // units taken earlier
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			if before > 0 {
				take(t, s, "alice", limit, before)
			}
			take(t, s, "tenant", "1/h", 1)
			keys := s.Stats().Keys
			checks := []headgate.Check{
				{Key: "alice", Limit: headgate.MustParseLimit(limit), Cost: 1},
				{Key: "tenant", Limit: headgate.MustParseLimit("1/h"), Cost: 1},
			}
			want := take(t, s, "alice", limit, 0)
			for range 10 {
				ds, err := s.TakeAll(context.Background(), checks, nil)
				if err != nil || !ds[0].Allowed || ds[0].Remaining != want.Remaining || ds[1].Allowed {
					t.Fatalf("%s: %+v, %v; want the first allowed with %d remaining, the second denied", limit, ds, err, want.Remaining)
				}
			}
			if got := take(t, s, "alice", limit, 0); got != want {
				t.Errorf("%s, %d taken: %+v after denied TakeAlls, want %+v as before", limit, before, got, want)
			}
			s.sweepAll()
			if got := s.Stats().Keys; before > 0 && got != keys {
				t.Errorf("%s: %d keys are remembered, want %d", limit, got, keys)
			}
		}
	}
}
