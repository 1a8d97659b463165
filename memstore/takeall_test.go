package memstore

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
)

// A key that comes with others may need room, and to make it the others are moved. What is taken from them is taken where
// they are then.
func TestTakeAllWhileItsOwnKeysAreMoved(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	ctx := context.Background()
	limit := headgate.MustParseLimit("90000/d")
	const old, rounds = 15, 8_000 + 32_000/slower
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
