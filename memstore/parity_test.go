package memstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// One who has read an entry cannot write to the slot when it has become another key's, though the words be the same: the key
// was reset, or given everything back, and the slot went to one that was taken from in the same microsecond.
func TestASlotThatHasANewOwnerIsNotWrittenTo(t *testing.T) {
	for _, tt := range []struct {
		name, limit string
		later       time.Duration
		empty       func(s *Store, c headgate.Check, r headgate.Receipt) error
	}{
		{"reset", "100000/s burst 10", 10 * time.Millisecond, func(s *Store, c headgate.Check, _ headgate.Receipt) error {
			return s.Reset(t.Context(), c)
		}},
		{"given back", "5/m burst 10", 0, func(s *Store, c headgate.Check, r headgate.Receipt) error { return s.Give(t.Context(), c, r) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := &fakeClock{}
			s := newStore(t, Options{Now: clock.Now})
			limit := headgate.MustParseLimit(tt.limit)
			p, err := newPlan(limit)
			if err != nil {
				t.Fatal(err)
			}
			const first = "first"
			hash := s.hash(p, first)
			second := ""
			for i := 0; second == ""; i++ { // one behind it in the same shard
				if h := s.hash(p, key(i)); h>>56 == hash>>56 && tagOf(h)&31 == tagOf(hash)&31 {
					second = key(i)
				}
			}
			check := headgate.Check{Key: first, Limit: limit, Cost: 5}
			ds, err := s.TakeAll(t.Context(), []headgate.Check{check, {Key: second, Limit: headgate.PerHour(5), Cost: 5}}, nil)
			if err != nil || !headgate.Allowed(ds) {
				t.Fatalf("got %+v, %v, want both allowed", ds, err)
			}
			clock.advance(tt.later)
			c := claim{ask: s.ask(p, first, 1)}
			if !s.see(&c, 0) {
				t.Fatal("the first key is not seen")
			}
			if err := tt.empty(s, check, ds[0].Receipt); err != nil {
				t.Fatal(err)
			}
			n, now := c.shard(), s.now()
			s.shards[n].mu.Lock()
			s.dirs[n].Load().segments[0].tidy(&sieve{ref: now, now: now, linger: lingerMicros})
			s.shards[n].mu.Unlock()
			if c.swap(true) {
				t.Error("what was to be taken from the first key was written to the second's entry")
			}
			if d := take(t, s, second, "5/h", 1); d.Allowed || d.Remaining != 0 {
				t.Errorf("the second key: got %+v, want denied with nothing left", d)
			}
		})
	}
}
