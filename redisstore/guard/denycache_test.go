package guard

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// asks returns the number of store calls that do makes.
func (f *fakeStore) during(do func()) int64 {
	before := f.calls.Load()
	do()
	return f.calls.Load() - before
}

func TestDenialCoverage(t *testing.T) {
	base := check("a/1", "2/h")
	with := func(change func(*headgate.Check)) headgate.Check {
		c := base
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name  string
		check headgate.Check // asked for after base was denied
		calls int64
	}{
		{"the same", base, 0},
		{"a larger cost", with(func(c *headgate.Check) { c.Cost = 2 }), 0},
		{"a cost that never passes", with(func(c *headgate.Check) { c.Cost = 3 }), 0},
		{"another policy", with(func(c *headgate.Check) { c.OnFailure = headgate.Closed }), 0},
		{"a look", with(func(c *headgate.Check) { c.Cost = 0 }), 1},
		{"another key", with(func(c *headgate.Check) { c.Key = "a/2" }), 1},
		{"another owner", with(func(c *headgate.Check) { c.Owner = "alice" }), 1},
		{"a raised limit", with(func(c *headgate.Check) { c.Limit.Count = 3 }), 1},
		{"another period", with(func(c *headgate.Check) { c.Limit.Period = time.Minute }), 1},
		{"a burst", with(func(c *headgate.Check) { c.Limit.Burst = 2 }), 1},
		{"another algorithm", with(func(c *headgate.Check) { c.Limit.Algorithm = headgate.GCRA }), 1},
		{"in parts", with(func(c *headgate.Check) { c.Split = 2 }), 1},
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			for range 3 {
				take(t, g, base)
			}
			if got := f.during(func() { take(t, g, tt.check) }); got != tt.calls {
				t.Errorf("%s: %d calls, want %d", tt.name, got, tt.calls)
			}
			if tt.calls > 0 {
				return
			}
			calls := f.during(func() {
				ds := takeAll(t, g, check("a/other", "10/s"), tt.check)
				if (ds[0] != headgate.Decision{Allowed: true}) || ds[1].Allowed {
					t.Errorf("%s: got %+v, want denied and the other not asked", tt.name, ds)
				}
			})
			if calls != 0 {
				t.Errorf("%s in TakeAll: %d calls, want none", tt.name, calls)
			}
		})
	}
}

func TestDenialEndsWhenItShould(t *testing.T) {
	for _, tt := range []struct {
		limit string
		cache time.Duration
		holds time.Duration
	}{
		{"2/h", 0, time.Second},
		{"2/h", 200 * time.Millisecond, 200 * time.Millisecond},
		{"2/h", -1, 0},
		{"2/h sliding-log", 0, time.Second},
		{"20/s burst 1", 0, 48 * time.Millisecond}, // its RetryAfter, which the store said 2 ms later
		{"2 concurrent", 0, 10 * time.Millisecond}, // an estimate
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{DenyCache: tt.cache})
			c := check("a/1", tt.limit)
			f.breaks("a", fault{slow: 2 * time.Millisecond}) // it holds from when the store is asked
			for take(t, g, c).Allowed {
			}
			asked := time.Now().Add(-2 * time.Millisecond)
			var first headgate.Decision
			if tt.holds > 0 {
				first = take(t, g, c)
			}
			last := tt.holds - 2*time.Millisecond - time.Microsecond
			calls := f.during(func() {
				for range 10 {
					if last <= 0 {
						break
					}
					time.Sleep(last / 10)
					d := take(t, g, c)
					if gone := time.Since(asked) - 2*time.Millisecond; first.RetryAfter-d.RetryAfter != gone.Truncate(time.Microsecond) {
						t.Fatalf("%s: RetryAfter went from %v to %v in %v", tt.limit, first.RetryAfter, d.RetryAfter, gone)
					}
				}
			})
			if calls != 0 {
				t.Errorf("%s: %d calls while it holds, want none", tt.limit, calls)
			}
			time.Sleep(tt.holds - time.Since(asked))
			if calls := f.during(func() { take(t, g, c) }); calls != 1 {
				t.Errorf("%s: %d calls after %v, want 1", tt.limit, calls, tt.holds)
			}
		})
	}
}

func TestChangesOfAKeyEndItsDenial(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		do   func(g *Guard, c headgate.Check, r headgate.Receipt) error
		want bool // it passes then
	}{
		{"Give", func(g *Guard, c headgate.Check, r headgate.Receipt) error { return g.Give(ctx, c, r) }, true},
		{"Reset", func(g *Guard, c headgate.Check, _ headgate.Receipt) error {
			return g.Reset(ctx, headgate.Check{Key: c.Key})
		}, true},
		{"Charge", func(g *Guard, c headgate.Check, _ headgate.Receipt) error {
			_, err := g.Charge(ctx, c)
			return err
		}, false},
	} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			g := newGuard(t, f, Options{})
			for _, limit := range []string{"1/h", "1/h sliding-window"} {
				c := check("a/"+limit, limit)
				r := take(t, g, c).Receipt
				if take(t, g, c).Allowed {
					t.Fatal("not denied")
				}
				if err := tt.do(g, c, r); err != nil {
					t.Fatal(err)
				}
				var d headgate.Decision
				if calls := f.during(func() { d = take(t, g, c) }); calls != 1 || d.Allowed != tt.want {
					t.Errorf("after %s: %d calls, got %+v", tt.name, calls, d)
				}
			}
		})
	}
}

func TestResponseFromBeforeARefundIsNotRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, slowAnswers{f, 5 * time.Millisecond}, Options{})
		c := check("a/1", "1/h")
		r := take(t, g, c).Receipt
		denied := make(chan headgate.Decision)
		go func() { denied <- take(t, g, c) }()
		time.Sleep(time.Millisecond)
		if err := g.Give(context.Background(), c, r); err != nil {
			t.Fatal(err)
		}
		if d := <-denied; d.Allowed {
			t.Fatalf("got %+v, want denied", d)
		}
		if d := take(t, g, c); !d.Allowed {
			t.Errorf("got %+v after the refund, want allowed", d)
		}
	})
}

// slowAnswers decides at once and responds later.
type slowAnswers struct {
	*fakeStore
	slow time.Duration
}

func (s slowAnswers) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := s.fakeStore.Take(ctx, c)
	time.Sleep(s.slow)
	return d, err
}

// A stubborn limiter always gives the same decision.
type stubborn struct {
	headgate.Limiter
	decision headgate.Decision
	calls    int
}

func (s *stubborn) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	s.calls++
	return s.decision, nil
}

func TestDegradedDecisionsAreNotRemembered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &stubborn{decision: headgate.Decision{Degraded: true, Limit: 10, RetryAfter: time.Hour, ResetAfter: time.Hour}}
		g := newGuard(t, s, Options{})
		for range 3 {
			take(t, g, check("a/1", "10/h"))
		}
		if s.calls != 3 {
			t.Errorf("%d calls, want 3", s.calls)
		}
		s.decision.Degraded = false
		for range 3 {
			take(t, g, check("a/1", "10/h"))
		}
		if s.calls != 4 {
			t.Errorf("%d calls, want 4", s.calls)
		}
	})
}

func TestDenialOutlivesTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		c := check("a/1", "1/h")
		take(t, g, c)
		take(t, g, c)
		goDown(t, g, f, "a")
		if d := take(t, g, c); d.Allowed || d.Degraded {
			t.Errorf("got %+v, want what the store said", d)
		}
		time.Sleep(time.Second)
		if d := take(t, g, c); !d.Allowed || !d.Degraded {
			t.Errorf("got %+v a second later, want the policy", d)
		}
	})
}
