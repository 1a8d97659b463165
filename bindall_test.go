package headgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/memstore"
)

// Requests that come every two seconds pass 10 a second, and only 5 of them a day.
func TestBindAllKeepsEveryLimit(t *testing.T) {
	for _, pair := range [][2]string{
		{"10/s", "5/d"}, {"5/d", "10/s"}, {"10/s fixed-window", "5/d fixed-window"}, {"5/m sliding-log", "5/d gcra"},
	} {
		synctest.Test(t, func(t *testing.T) {
			for name, l := range limiters(t) {
				b := headgate.MustBindAll(l, headgate.MustParseLimit(pair[0]), headgate.MustParseLimit(pair[1]))
				allowed := 0
				for range 1000 {
					if b.Allow("alice") {
						allowed++
					}
					time.Sleep(2 * time.Second)
				}
				if allowed != 5 {
					t.Errorf("%v over %s: %d of 1000 requests passed in 2000 s, want 5", pair, name, allowed)
				}
			}
		})
	}
}

// docs/misuse.md says so: two limits need two keys.
func TestTwoLimitsOnOneKeyKeepOnlyTheShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, l := range limiters(t) {
			second := headgate.MustBind(l, headgate.PerSecond(10))
			day := headgate.MustBind(l, headgate.PerDay(20))
			count := func(requests int, pause time.Duration, dayKey string) (allowed int) {
				for range requests {
					if second.Allow("alice") && day.Allow(dayKey) {
						allowed++
					}
					time.Sleep(pause)
				}
				return allowed
			}
			if got := count(100, 2*time.Second, "alice"); got != 100 {
				t.Errorf("%s: one key: %d of 100 requests passed, want 100: not kept, as documented", name, got)
			}
			if got := count(100, 0, "alice"); got > 10 {
				t.Errorf("%s: one key: %d of 100 requests passed at once, want at most the 10 of a second", name, got)
			}
			time.Sleep(time.Minute)
			if got := count(100, 2*time.Second, "alice/day"); got != 20 {
				t.Errorf("%s: two keys: %d of 100 requests passed, want the 20 of a day", name, got)
			}
		}
	})
}

func TestBindAllTakesAllOrNothing(t *testing.T) {
	ctx := context.Background()
	for name, l := range limiters(t) {
		b := headgate.MustBindAll(l, headgate.PerHour(10), headgate.PerDay(3))
		decisions, err := b.Take(ctx, "alice", 4)
		if err != nil || headgate.Allowed(decisions) || len(decisions) != 2 || decisions[0].Remaining != 10 {
			t.Errorf("%s: 4 units: got %+v, %v, want the second limit to deny and nothing taken", name, decisions, err)
		}
		decisions, err = b.Take(ctx, "alice", 3)
		if err != nil || !headgate.Allowed(decisions) || headgate.Tightest(decisions).Limit != 3 {
			t.Fatalf("%s: 3 units: got %+v, %v, want allowed", name, decisions, err)
		}
		for i, c := range b.Checks("alice", 1) {
			if err := l.Give(ctx, c, decisions[i].Receipt); err != nil {
				t.Errorf("%s: Give: %v", name, err)
			}
		}
		if !b.Allow("alice") || b.Allow("alice") {
			t.Errorf("%s: after one unit was given back: want one more to pass", name)
		}
		if err := b.Reset(ctx, "alice"); err != nil || !b.AllowN("alice", 3) {
			t.Errorf("%s: after Reset: got %v, want 3 units to pass", name, err)
		}
		raised := headgate.MustBindAll(l, headgate.PerHour(10), headgate.PerDay(5))
		if !raised.AllowN("alice", 2) || raised.Allow("alice") {
			t.Errorf("%s: after the limit was raised from 3 to 5: want 2 more units to pass", name)
		}
	}
}

func TestMisuseOfBindAllDenies(t *testing.T) {
	ctx := context.Background()
	var none context.Context
	for name, l := range limiters(t) {
		b := headgate.MustBindAll(l, headgate.PerHour(1), headgate.PerDay(1))
		if b.Allow("") || b.Allow(strings.Repeat("k", headgate.MaxKeyBytes)) || b.AllowN("alice", 0) || b.AllowN("alice", -1) {
			t.Errorf("%s: Allow after a mistake: got true, want false", name)
		}
		_, emptyKey := b.Take(ctx, "", 1)
		for misuse, err := range map[string]error{"Take": emptyKey, "Reset": b.Reset(ctx, "")} {
			if !errors.Is(err, headgate.ErrInvalidCheck) {
				t.Errorf("%s: %s of an empty key: got %v, want %v", name, misuse, err, headgate.ErrInvalidCheck)
			}
		}
		if _, err := b.Take(none, "alice", 1); !errors.Is(err, headgate.ErrNilContext) {
			t.Errorf("%s: nil context: got %v, want %v", name, err, headgate.ErrNilContext)
		}
		for _, limits := range [][]headgate.Limit{nil, {headgate.PerHour(1), {}}, make([]headgate.Limit, headgate.MaxChecks+1)} {
			if _, err := headgate.BindAll(l, limits...); !errors.Is(err, headgate.ErrInvalidLimit) {
				t.Errorf("%s: %d limits: got %v, want %v", name, len(limits), err, headgate.ErrInvalidLimit)
			}
		}
	}
	if _, err := headgate.BindAll(nil, headgate.PerHour(1)); err == nil {
		t.Error("BindAll of nil: got no error")
	}
	closed := memstore.MustNew(memstore.Options{})
	b := headgate.MustBindAll(closed, headgate.PerHour(1))
	if err := closed.Close(); err != nil || b.Allow("alice") || b.WithPolicy(headgate.Open).Allow("alice") {
		t.Errorf("Allow after Close (%v): got true, want false", err)
	}
}

// failingAll fails in TakeAll.
type failingAll struct{ *stepstore.Store }

func (failingAll) TakeAll(context.Context, []headgate.Check, []headgate.Decision) ([]headgate.Decision, error) {
	return nil, errors.New("connection refused")
}

func TestPolicyDecidesWhenTheLimiterOfABoundAllFails(t *testing.T) {
	b := headgate.MustBindAll(failingAll{stepstore.New(time.Now)}, headgate.PerHour(1))
	if !b.Allow("alice") || b.WithPolicy(headgate.Closed).Allow("alice") {
		t.Error("want the default Open to allow and Closed to deny")
	}
}
