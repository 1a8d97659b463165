package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

func delayed(wait time.Duration) rules.OnLimit {
	return rules.OnLimit{Action: rules.Delay, MaxWait: wait}
}

func TestDelaysFollowEachOther(t *testing.T) {
	for _, tt := range []struct {
		limit string
		wait  time.Duration
		want  []int // ms; -1 for a denial
	}{
		{"10/s burst 2", 500 * time.Millisecond, []int{0, 0, 100, 200, 300, 400, 500, -1, -1}},
		{"10/s burst 2 gcra", 500 * time.Millisecond, []int{0, 0, 100, 200, 300, 400, 500, -1}},
		// A leaky bucket spaces from the first on; its burst bounds the queue, and so does the time.
		{"10/s leaky-bucket burst 4", time.Minute, []int{0, 100, 200, 300, -1}},
		{"10/s leaky-bucket burst 100", 250 * time.Millisecond, []int{0, 100, 200, -1}},
	} {
		t.Run(tt.limit, func(t *testing.T) {
			b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits(tt.limit), OnLimit: delayed(tt.wait)})
			for i, want := range tt.want {
				v := b.ask(alice())
				switch {
				case want < 0:
					if said(v) != "reject (over limit) by a" || v.RetryAfter <= 0 || v.RetryAfter > 100*time.Millisecond {
						t.Errorf("request %d: got %s, retry after %v, want a denial until there is room", i, said(v), v.RetryAfter)
					}
				case want == 0:
					if v.Action != engine.Allow || v.Delay != 0 {
						t.Errorf("request %d: got %s, %v", i, said(v), v.Delay)
					}
				default:
					if said(v) != "delay by a" || v.Delay != millis(want) {
						t.Errorf("request %d: got %s, %v, want %v", i, said(v), v.Delay, millis(want))
					}
				}
				limit := headgate.MustParseLimit(tt.limit)
				if d := v.Limits()[0].Decision; d.Limit != limit.Capacity() || d.Remaining < 0 || d.Remaining > limit.Capacity() {
					t.Errorf("request %d: got %+v, want it about %s", i, d, limit)
				}
				if v.Limits()[0].Limit != limit {
					t.Errorf("request %d: got limit %s", i, v.Limits()[0].Limit)
				}
			}
			// When RetryAfter says there is room, there is.
			v := b.ask(alice())
			b.Advance(v.RetryAfter)
			if v := b.ask(alice()); v.Action != engine.Delay || v.Delay > tt.wait {
				if tt.wait >= 100*time.Millisecond {
					t.Errorf("after RetryAfter: got %s, %v", said(v), v.Delay)
				}
			}
		})
	}
}

// Rates of which a unit is no whole number of microseconds: nobody is early, and nobody late by more than one.
func TestDelaysOfUnevenRates(t *testing.T) {
	for _, limit := range []string{"3/s", "7/s burst 3", "300/h burst 5", "1000003/h burst 10", "999983/m"} {
		l := headgate.MustParseLimit(limit)
		b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits(limit), OnLimit: delayed(time.Minute)})
		for n := int64(1); n <= l.Capacity()+50 && n < 2000; n++ {
			v := b.ask(alice())
			if !v.Action.Passes() {
				break
			}
			over := max(0, n-l.Capacity())
			want := time.Duration((over*l.Period.Microseconds()+l.Count-1)/l.Count) * time.Microsecond
			if v.Delay < want || v.Delay > want+time.Microsecond || (over == 0) != (v.Action == engine.Allow) {
				t.Errorf("%s: request %d: held for %v, want %v", limit, n, v.Delay, want)
				break
			}
		}
	}
}

func TestDelaysStayWithinTheMaximum(t *testing.T) {
	for _, limit := range []string{"7/s burst 3", "7/s burst 3 gcra", "3/s burst 2", "11/s burst 100 leaky-bucket"} {
		b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits(limit), OnLimit: delayed(time.Second)})
		var longest time.Duration
		for range 50 {
			longest = max(longest, b.ask(alice()).Delay)
		}
		if longest > time.Second || longest < time.Second*8/10 {
			t.Errorf("%s: held for up to %v, want up to 1s", limit, longest)
		}
	}
}

// A charge goes into debt by the limit as it is, not by the longer one that a place is reserved with.
func TestDebtOfARuleThatDelays(t *testing.T) {
	r := tokens("10/s burst 5")
	r.Cost.Estimate, r.OnLimit = 1, delayed(time.Second)
	b := newBench(t, r)
	settle(t, b.ask(alice()), map[string]string{"X-Tokens-Used": "1000000"})
	// It owes 5 + 10·5. One more has its turn within a second when 15 are left of the 56.
	if v := b.ask(alice()); v.Action != engine.Reject || v.RetryAfter != 4100*time.Millisecond {
		t.Errorf("got %s, retry after %v, want 4.1s", said(v), v.RetryAfter)
	}
}

// Nobody else notices that the capacity is extended: who does not delay goes by the plain limit.
func TestDelayRuleLeavesRejectRulesAlone(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/s burst 2"), OnLimit: delayed(time.Second)})
	for range 7 { // five wait
		b.ask(alice())
	}
	set := compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("10/s burst 2")}})
	if err := b.SetRules(set); err != nil {
		t.Fatal(err)
	}
	v := b.ask(alice())
	if v.Action != engine.Reject || v.RetryAfter != 600*time.Millisecond {
		t.Errorf("got %s, retry after %v, want 600ms: those who wait come first", said(v), v.RetryAfter)
	}
}

func TestCostAboveTheCapacityIsNotDelayed(t *testing.T) {
	for _, limit := range []string{"10/s burst 5", "10/s burst 5 leaky-bucket"} {
		b := newBench(t, rules.Rule{
			ID: "a", Key: by(user), Limits: limits(limit), OnLimit: delayed(time.Minute), Cost: rules.Cost{Header: "X-Cost", Max: 100},
		})
		request := alice()
		request[header("x-cost")] = "6"
		if v := b.ask(request); v.Action != engine.Reject || v.RetryAfter != headgate.Never {
			t.Errorf("%s: got %s, retry after %v", limit, said(v), v.RetryAfter)
		}
	}
}

func TestLongestDelayHolds(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "short", Key: by(user), Limits: limits("10/s burst 1"), OnLimit: delayed(time.Minute)},
		rules.Rule{ID: "long", Key: by(ip), Limits: limits("2/s burst 1", "100/s burst 1"), OnLimit: delayed(time.Minute)},
		rules.Rule{ID: "plain", Key: by(ip), Limits: limits("3/h")},
	)
	for i, want := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
		if v := b.ask(alice()); v.Delay != want || want > 0 && v.Rule.ID != "long" {
			t.Errorf("request %d: got %s, %v, want %v by long", i, said(v), v.Delay, want)
		}
	}
	before := remaining(t, b.Engine, alice())
	// A rule that rejects wins, and what would have been reserved is not.
	if v := b.ask(alice()); said(v) != "reject (over limit) by plain" || v.Delay != 0 {
		t.Errorf("got %s, %v", said(v), v.Delay)
	}
	if after := remaining(t, b.Engine, alice()); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("got %v, want %v", after, before)
	}
	if b.Waiting() != 2 {
		t.Errorf("%d wait, want 2", b.Waiting())
	}
}

// The reservation is given back when a store that is asked later denies.
func TestReservationIsReturnedWhenAnotherStoreDenies(t *testing.T) {
	b := newBench(t)
	local, _, exact, _ := stores(t, b)
	e := newEngine(t, engine.Config{Store: exact, Local: local, Shared: true, Rules: compile(t, []rules.Rule{
		{ID: "here", Key: by(user), Limits: limits("10/s burst 1"), Consistency: rules.Local, OnLimit: delayed(time.Minute)},
		{ID: "own", Key: by(user), Limits: limits("2/h")},
	})})
	decide(t, e, alice())
	decide(t, e, alice())
	for range 20 {
		if v := decide(t, e, alice()); said(v) != "reject (over limit) by own" {
			t.Fatalf("got %s", said(v))
		}
	}
	if e.Waiting() != 1 {
		t.Errorf("%d wait, want 1", e.Waiting())
	}
	set := compile(t, []rules.Rule{
		{ID: "here", Key: by(user), Limits: limits("10/s burst 1"), Consistency: rules.Local, OnLimit: delayed(time.Minute)},
	})
	if err := e.SetRules(set); err != nil {
		t.Fatal(err)
	}
	if v := decide(t, e, alice()); v.Delay != 200*time.Millisecond {
		t.Errorf("held for %v, want 200ms: of 22 requests two have a place", v.Delay)
	}
}
