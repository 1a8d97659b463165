package guard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestPoliciesDecideWhileTheCircuitIsOpen(t *testing.T) {
	second := headgate.MustParseLimit("2/s")
	for _, tt := range []struct {
		name  string
		check headgate.Check
		nodes int
		want  []headgate.Decision // one after the other; RetryAfter 1 stands for some
	}{
		{
			name: "open", check: costing(check("a/1", "10/s burst 20"), 3),
			want: []headgate.Decision{
				{Allowed: true, Limit: 20, Remaining: 17, Receipt: headgate.Receipt{At: -1, Units: 3}},
				{Allowed: true, Limit: 20, Remaining: 17, Receipt: headgate.Receipt{At: -1, Units: 3}},
			},
		},
		{name: "open, a look", check: costing(check("a/1", "10/s"), 0), want: []headgate.Decision{{Allowed: true, Limit: 10, Remaining: 10}}},
		{
			name: "open, a cost that never passes", check: costing(check("a/1", "10/s"), 11),
			want: []headgate.Decision{{Limit: 10, RetryAfter: headgate.Never}},
		},
		{
			name: "closed", check: under(check("a/1", "10/s"), headgate.Closed),
			want: []headgate.Decision{{Limit: 10, RetryAfter: 1}, {Limit: 10, RetryAfter: 1}},
		},
		{
			name: "closed, a cost that never passes", check: costing(under(check("a/1", "10/s"), headgate.Closed), 11),
			want: []headgate.Decision{{Limit: 10, RetryAfter: headgate.Never}},
		},
		{
			name: "local, alone", check: costing(under(check("a/1", "10/s"), headgate.Local), 6),
			want: []headgate.Decision{{Allowed: true, Limit: 10, Remaining: 4}, {Limit: 10, Remaining: 4, RetryAfter: 200 * time.Millisecond}},
		},
		{
			name: "local, a share", check: under(check("a/1", "10/s burst 25"), headgate.Local), nodes: 9,
			want: []headgate.Decision{
				{Allowed: true, Limit: 2, Remaining: 1},
				{Allowed: true, Limit: 2, Remaining: 0},
				{Limit: 2, Remaining: 0, RetryAfter: time.Second},
			},
		},
		{
			name: "local, at least one", check: under(check("a/1", "10/s"), headgate.Local), nodes: 1000,
			want: []headgate.Decision{{Allowed: true, Limit: 1}, {Limit: 1, RetryAfter: time.Second}},
		},
		{
			name: "local, more than the share", check: costing(under(check("a/1", "10/s"), headgate.Local), 3), nodes: 5,
			want: []headgate.Decision{{Limit: 2, Remaining: 2, RetryAfter: 1}},
		},
		{
			name:  "local, safe",
			check: headgate.Check{Key: "a/1", Limit: headgate.PerSecond(1000), Cost: 1, OnFailure: headgate.Local, Safe: &second}, nodes: 2,
			want: []headgate.Decision{{Allowed: true, Limit: 2, Remaining: 1}, {Allowed: true, Limit: 2}, {Limit: 2, RetryAfter: 500 * time.Millisecond}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake(t, nil)
				g := newGuard(t, f, Options{Nodes: func() int { return tt.nodes }})
				goDown(t, g, f, "a")
				before := g.Stats()
				calls := f.calls.Load()
				for i, want := range tt.want {
					got := take(t, g, tt.check)
					if !got.Degraded {
						t.Errorf("decision %d: not degraded", i)
					}
					if tt.check.OnFailure == headgate.Local && got.Allowed {
						if got.Receipt.At >= -1 || got.Receipt.Units != tt.check.Cost {
							t.Errorf("decision %d: got receipt %+v, want a local one", i, got.Receipt)
						}
						got.Receipt = headgate.Receipt{}
					}
					if want.RetryAfter == 1 {
						if got.RetryAfter < time.Millisecond || got.RetryAfter > firstDelay {
							t.Errorf("decision %d: got retry %v, want the time to the next probe", i, got.RetryAfter)
						}
						want.RetryAfter = got.RetryAfter
					}
					want.Degraded, want.ResetAfter = true, got.ResetAfter
					if got != want {
						t.Errorf("decision %d: got %+v, want %+v", i, got, want)
					}
				}
				after := g.Stats()
				made := [...]int64{after.Open - before.Open, after.Closed - before.Closed, after.Local - before.Local}
				var want [3]int64
				want[tt.check.OnFailure] = int64(len(tt.want))
				if made != want {
					t.Errorf("counted %v by policy, want %v", made, want)
				}
				wantStats(t, g, "calls", f.calls.Load(), calls)
			})
		})
	}
}

func TestRetryOfClosedIsTheTimeToTheNextProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		c := under(check("a/1", "10/s"), headgate.Closed)
		f.breaks("a", fault{err: errRefused})
		if d := take(t, g, c); d.RetryAfter != firstDelay {
			t.Errorf("with the circuit closed: got %v, want %v", d.RetryAfter, firstDelay)
		}
		goDown(t, g, f, "a")
		f.breaks("a", fault{})
		d := take(t, g, c)
		time.Sleep(d.RetryAfter + time.Microsecond)
		if d := take(t, g, c); d.Degraded {
			t.Errorf("after RetryAfter: got %+v, want exact", d)
		}
	})
}

func TestShareOfALimitIsALimit(t *testing.T) {
	for _, text := range []string{
		"10/s", "1/s", "10/s burst 25", "3/366d burst 2", "100/h sliding-window", "7 concurrent", "100/m sliding-buckets 6",
		"100/h fixed-window staggered", "1099511627776/366d", "3/366d burst 53",
	} {
		l := headgate.MustParseLimit(text)
		for _, nodes := range []int64{1, 2, 3, 10, 1 << 40} {
			got := share(l, nodes)
			if err := got.Validate(); err != nil {
				t.Errorf("%s among %d: %v", text, nodes, err)
			}
			if want := max(1, l.Count/nodes); got.Count != want {
				t.Errorf("%s among %d: got %d, want %d", text, nodes, got.Count, want)
			}
			if l.Burst != 0 && got.Burst != 0 && got.Burst != max(1, l.Burst/nodes) {
				t.Errorf("%s among %d: got burst %d", text, nodes, got.Burst)
			}
		}
	}
}

func TestFailedLocalLimiterAllows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, local := newFake(t, nil), newFake(t, nil)
		local.breaks("a", fault{err: errRefused})
		g := newGuard(t, f, Options{Local: local})
		goDown(t, g, f, "a")
		c := under(check("a/1", "1/h"), headgate.Local)
		for range 3 {
			if d := take(t, g, c); !d.Allowed || !d.Degraded || d.Receipt.At != atNowhere {
				t.Errorf("got %+v, want allowed", d)
			}
			if ds := takeAll(t, g, c, under(check("a/2", "1/h"), headgate.Local)); !headgate.Allowed(ds) {
				t.Errorf("got %+v, want allowed", ds)
			}
		}
		wantStats(t, g, "local failures", g.Stats().LocalFailures, 9)
		wantStats(t, g, "local", g.Stats().Local, 9)
	})
}

func TestReceiptsGoBackToWhereTheyWereTaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f, local := newFake(t, nil), newFake(t, nil)
		g := newGuard(t, f, Options{Local: local})
		ctx := context.Background()
		remote := costing(check("a/1", "10/h"), 4)
		fromStore := take(t, g, remote)
		goDown(t, g, f, "a")
		fromNowhere := take(t, g, remote)
		fromLocal := take(t, g, under(remote, headgate.Local))
		lease := take(t, g, under(check("a/2", "3 concurrent"), headgate.Local))

		err := g.Give(ctx, remote, fromStore.Receipt)
		var why *Error
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errRefused) || !errors.As(err, &why) || why.Sent || why.Op != "give" {
			t.Errorf("store's receipt while down: got %v, want that it is unavailable", err)
		}
		wantStats(t, g, "units not returned", g.Stats().UnitsNotReturned, 4)

		if err := g.Give(ctx, remote, fromNowhere.Receipt); err != nil {
			t.Error(err)
		}
		if err := g.Give(ctx, under(remote, headgate.Local), fromLocal.Receipt); err != nil {
			t.Error(err)
		}
		if err := g.Give(ctx, under(check("a/2", "3 concurrent"), headgate.Local), lease.Receipt); err != nil {
			t.Error(err)
		}
		f.breaks("a", fault{})
		time.Sleep(time.Second)
		if f.gives.Load() != 0 || local.gives.Load() != 2 {
			t.Errorf("store was given back %d times and local %d, want 0 and 2", f.gives.Load(), local.gives.Load())
		}
		look := costing(remote, 0)
		if d := take(t, f, look); d.Remaining != 6 {
			t.Errorf("store: got %d remaining, want 6", d.Remaining)
		}
		if d := take(t, local, look); d.Remaining != 10 {
			t.Errorf("local: got %d remaining, want 10", d.Remaining)
		}
		if d := take(t, local, costing(check("a/2", "3 concurrent"), 0)); d.Remaining != 3 {
			t.Errorf("local lease: got %d remaining, want 3", d.Remaining)
		}
		// The same holds after the store has recovered.
		later := take(t, g, remote)
		for _, r := range []headgate.Receipt{fromNowhere.Receipt, later.Receipt} {
			if err := g.Give(ctx, remote, r); err != nil {
				t.Error(err)
			}
		}
		if d := take(t, f, look); d.Remaining != 6 || f.gives.Load() != 1 {
			t.Errorf("store: got %d remaining after %d gives, want 6 after 1", d.Remaining, f.gives.Load())
		}
	})
}

// A caller that gives up before its turn returns all of its units to the local limiter too.
func TestLocalUnitsOfCanceledCallsAreReturned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, f, Options{})
		goDown(t, g, f, "a")
		c := under(check("a/1", "10/s leaky-bucket burst 20"), headgate.Local)
		for range 6 {
			take(t, g, c)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(500*time.Millisecond, cancel)
		if err := headgate.Wait(ctx, g, c); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if d := take(t, g, c); d.Delay != 100*time.Millisecond {
			t.Errorf("the next is held for %v, want 100ms", d.Delay)
		}
	})
}

func TestChargeFollowsThePolicy(t *testing.T) {
	for _, down := range []bool{true, false} { // or each call fails
		for p, want := range []struct{ allowed, dropped, local int64 }{
			headgate.Open: {allowed: 1, dropped: 1}, headgate.Closed: {dropped: 1}, headgate.Local: {allowed: 1, local: 1},
		} {
			inBubble(t, func(t *testing.T) {
				f, local := newFake(t, nil), newFake(t, nil)
				g := newGuard(t, f, Options{Local: local})
				f.breaks("a", fault{err: errRefused})
				if down {
					goDown(t, g, f, "a")
				}
				c := costing(under(check("a/1", "10/h"), headgate.Policy(p)), 7)
				d, err := g.Charge(context.Background(), c)
				if err != nil || !d.Degraded || d.Allowed != (want.allowed == 1) || d.Limit != 10 {
					t.Errorf("%v: got %+v, %v", c.OnFailure, d, err)
				}
				wantStats(t, g, "charges dropped", g.Stats().ChargesDropped, want.dropped)
				left := take(t, local, costing(c, 0)).Remaining
				if left != 10-7*want.local {
					t.Errorf("%v: %d remaining locally", c.OnFailure, left)
				}
				if want.dropped == 1 && d.Receipt != (headgate.Receipt{}) {
					t.Errorf("%v: got receipt %+v for nothing", c.OnFailure, d.Receipt)
				}
				if want.local == 1 && (d.Remaining != 3 || d.Receipt.At >= atNowhere) {
					t.Errorf("%v: got %+v, want 3 remaining and a local receipt", c.OnFailure, d)
				}
			})
		}
	}
}

func TestResetFailsWhileTheStoreIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		goDown(t, g, f, "a")
		c := under(check("a/1", "1/h"), headgate.Local)
		take(t, g, c)
		err := g.Reset(context.Background(), c)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "reset on a") {
			t.Errorf("got %v, want that a is unavailable", err)
		}
		if d := take(t, g, c); !d.Allowed {
			t.Errorf("got %+v, want the local counter reset", d)
		}
		f.breaks("b", fault{hangs: true})
		err = g.Reset(context.Background(), headgate.Check{Key: "b/1"})
		var why *Error
		if !errors.As(err, &why) || !why.Sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that it may have been done", err)
		}
	})
}

func TestBadOptionsAreRefused(t *testing.T) {
	store := newFake(t, nil)
	for what, o := range map[string]Options{
		"Deadline":  {Deadline: -1},
		"DenyCache": {DenyCache: time.Hour},
	} {
		if g, err := New(store, o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: got %v, %v", o, g, err)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("no store: want an error")
	}
}
