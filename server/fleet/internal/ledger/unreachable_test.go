package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestMembersAreSharesOfALimit(t *testing.T) {
	m := &fleettest.Members{LiveNodes: 3, KnownNodes: 4}
	clock, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.Members = m })
	h := all[0]
	check := func(p headgate.Partition, want int64) {
		t.Helper()
		d, err := h.Peek(context.Background(), headgate.Check{Key: "k", Limit: headgate.PerHour(100), Partition: p})
		if err != nil || d.Limit != want {
			t.Errorf("partition %v with %d of %d: got limit %d, %v, want %d", p, m.LiveNodes, m.KnownNodes, d.Limit, err, want)
		}
	}
	check(headgate.PartitionFull, 100)
	check(headgate.PartitionShare, 75)
	m.LiveNodes = 4
	clock.Advance(time.Second)
	check(headgate.PartitionShare, 100)
	m.LiveNodes, m.KnownNodes = 1, 1000
	clock.Advance(time.Second)
	check(headgate.PartitionShare, 1)
	if _, err := h.Take(context.Background(), headgate.Check{Key: "k", Limit: headgate.PerHour(1), Cost: 1, Partition: 7}); !errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("an unknown partition: got %v, want ErrInvalidCheck", err)
	}
}

func TestPoliciesApplyWhileOthersAreAway(t *testing.T) {
	_, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.Members = &fleettest.Members{LiveNodes: 4, KnownNodes: 4} })
	h := all[0]
	safe := headgate.PerHour(7)
	window := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 5, Period: time.Hour}
	h.SetUnreachable(true, 300*time.Millisecond)
	for _, tt := range []struct {
		name  string
		check headgate.Check
		limit int64
		open  bool
	}{
		{"open", headgate.Check{OnFailure: headgate.Open}, 100, true},
		{"local", headgate.Check{OnFailure: headgate.Local}, 25, true},
		{"safe", headgate.Check{OnFailure: headgate.Local, Safe: &safe}, 7, true},
		{"safe of another kind", headgate.Check{OnFailure: headgate.Local, Safe: &window}, 5, true},
		{"closed", headgate.Check{OnFailure: headgate.Closed}, 100, false},
	} {
		tt.check.Key, tt.check.Limit, tt.check.Cost = tt.name, headgate.PerHour(100), 1
		d, err := h.Take(context.Background(), tt.check)
		if err != nil || d.Allowed != tt.open || d.Limit != tt.limit || !d.Degraded {
			t.Errorf("%s: got %+v, %v, want allowed=%t limit=%d degraded", tt.name, d, err, tt.open, tt.limit)
		}
		if !tt.open && d.RetryAfter != 300*time.Millisecond {
			t.Errorf("%s: got retry after %v, want 300ms", tt.name, d.RetryAfter)
		}
		if tt.open {
			if err := h.Give(context.Background(), tt.check, d.Receipt); err != nil {
				t.Fatal(err)
			}
			if d, err := h.Peek(context.Background(), tt.check); err != nil || d.Remaining != tt.limit {
				t.Errorf("%s: after giving back: got %d left, %v, want %d", tt.name, d.Remaining, err, tt.limit)
			}
		}
		dst, err := h.TakeAll(context.Background(), []headgate.Check{tt.check, {Key: "another", Limit: headgate.PerHour(3), Cost: 1}}, nil)
		if err != nil || headgate.Allowed(dst) != tt.open {
			t.Errorf("%s: TakeAll: got %+v, %v, want allowed=%t", tt.name, dst, err, tt.open)
		}
		_ = h.Reset(context.Background(), headgate.Check{Key: "another"})
	}
	h.SetUnreachable(false, 0)
	d, err := h.Take(context.Background(), headgate.Check{Key: "closed", Limit: headgate.PerHour(100), OnFailure: headgate.Closed, Cost: 1})
	if err != nil || !d.Allowed || d.Degraded {
		t.Errorf("when others are back: got %+v, %v, want allowed and not degraded", d, err)
	}
}

func TestALocalCapBoundsWhatOneHostDoesAlone(t *testing.T) {
	clock, all := hosts(t, 2, false, func(o *fleet.LedgerOptions) { o.LocalCap = 30 })
	limit := headgate.PerSecond(100)
	if got := all[0].take("k", limit, 100); got != 30 {
		t.Errorf("passed at once: got %d, want 30", got)
	}
	clock.Advance(time.Second)
	if got := all[0].take("k", limit, 100); got != 30 {
		t.Errorf("passed after a second: got %d, want 30", got)
	}
	// What others took does not count against the cap, only against the limit.
	all[1].take("k", limit, 30)
	shareAll(all...)
	wantRemaining(t, "on the host that took all it may", "k", limit, 0, all[0])
	if d, err := all[0].Take(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 31}); err != nil || d.Allowed || d.RetryAfter != headgate.Never {
		t.Errorf("a cost above the cap: got %+v, %v, want never", d, err)
	}
}

// The decision says when the node's own part is refilled, and the bucket of all nodes drains sooner.
func TestALocalCapDoesNotDelayWhenTheBucketIsEmpty(t *testing.T) {
	_, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) { o.LocalCap = 50 })
	h, check := all[0], headgate.Check{Key: "k", Limit: headgate.PerSecond(100), Cost: 50}
	d, err := h.Take(context.Background(), check)
	if err != nil || d.Limit != 50 || d.Remaining != 0 || d.ResetAfter != time.Second {
		t.Errorf("got %+v, %v, want limit 50, remaining 0, reset after 1s", d, err)
	}
	key, err := h.KeyOf(check)
	if err != nil {
		t.Fatal(err)
	}
	_, r := h.lockRecord(&key)
	defer h.shardOf(&key).mu.Unlock()
	if got, want := r.timeToEmpty(h.now()), (500 * time.Millisecond).Microseconds(); got != want {
		t.Errorf("time until the bucket is empty: got %d µs, want %d µs", got, want)
	}
}
