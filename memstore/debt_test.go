package memstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// charge puts a key into a debt that fits a state word, and returns a check of one unit.
func charge(t *testing.T, s *Store) headgate.Check {
	t.Helper()
	check := headgate.Check{Key: "alice", Limit: headgate.MustParseLimit("10/h"), Cost: 13}
	if d, err := s.Charge(t.Context(), check); err != nil || d.Remaining != -3 {
		t.Fatalf("charge: %+v, %v, want 3 units of debt", d, err)
	}
	check.Cost = 1
	return check
}

// hasEntry reports whether the key of a check has an entry, not a record.
func hasEntry(t *testing.T, s *Store, c headgate.Check) bool {
	t.Helper()
	p, err := s.newPlan(c.Limit)
	if err != nil {
		t.Fatal(err)
	}
	return s.entry(s.hash(p, c.Key)) != nil
}

func TestDenialInDebtMovesTheKeyToARecord(t *testing.T) {
	clock := &fakeClock{}
	s := newStore(t, Options{Now: clock.Now})
	check := charge(t, s)
	if !hasEntry(t, s, check) {
		t.Error("the key has no entry before it is denied")
	}
	clock.advance(time.Minute)
	if d := take(t, s, check.Key, "10/h", 1); d.Allowed || d.Remaining != -3 || hasEntry(t, s, check) {
		t.Errorf("got %+v, entry %v, want a denial in a record", d, hasEntry(t, s, check))
	}
}

// Without memory for a record, the key is denied all the same, and is not evicted.
func TestDenialInDebtNeedsNoRoom(t *testing.T) {
	s, clock := newSmallStore(t)
	check := charge(t, s)
	fill(t, s, "1/h sliding-window")
	for range 3 {
		if !hasEntry(t, s, check) {
			t.Fatal("the key has no entry")
		}
		clock.advance(time.Minute)
		d, err := s.Take(t.Context(), check)
		if err != nil || d.Allowed || d.Remaining != -3 {
			t.Fatalf("got %+v, %v, want a denial", d, err)
		}
	}
}
