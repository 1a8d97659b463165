package loadgen

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/loadgen/target"
)

// A fakeTarget answers after a time, and stalls once.
type fakeTarget struct {
	takes    time.Duration
	stallAt  int64 // which request stalls; 0 for none
	stall    time.Duration
	err      error
	asked    atomic.Int64
	inFlight atomic.Int64
	most     atomic.Int64
}

func (f *fakeTarget) Take(ctx context.Context, _ string) (target.Outcome, error) {
	if n := f.inFlight.Add(1); n > f.most.Load() {
		f.most.Store(n)
	}
	defer f.inFlight.Add(-1)
	wait := f.takes
	n := f.asked.Add(1)
	if n == f.stallAt {
		wait = f.stall
	}
	select {
	case <-time.After(wait):
		return target.Outcome{Allowed: n%4 != 0}, f.err
	case <-ctx.Done():
		return target.Outcome{}, ctx.Err()
	}
}

func (f *fakeTarget) Close() error { return nil }

// do runs a load in the bubble's time.
func do(t *testing.T, o Options) Report {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.coarse = 0 // the bubble's timers are exact
	return r.Do(t.Context())
}

// One connection stalls for a second at 100 requests a second. The 100 requests that were due meanwhile have waited,
// although the target answered each of them in a millisecond.
func TestLatencyCountsFromWhenRequestsWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{takes: time.Millisecond, stallAt: 100, stall: time.Second}
		r := do(t, Options{Target: f, Rate: 100, Duration: 4 * time.Second, Connections: 1})
		if r.Sent != 400 || r.Unsent != 0 {
			t.Errorf("got %d sent and %d not sent, want 400 and 0", r.Sent, r.Unsent)
		}
		if got := r.Service.At(99); got > 2*time.Millisecond {
			t.Errorf("service p99: got %v, want 1ms", got)
		}
		if got := r.Latency.At(90); got < 400*time.Millisecond || got > 800*time.Millisecond {
			t.Errorf("latency p90: got %v, want about 600ms", got)
		}
		if got := r.Latency.MaxMicros / 1e6; got < 0.99 || got > 1.01 {
			t.Errorf("longest latency: got %.3f s, want 1 s", got)
		}
	})
}

func TestRateDoesNotDependOnAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{takes: 100 * time.Millisecond}
		r := do(t, Options{Target: f, Rate: 200, Duration: 3 * time.Second, Connections: 32})
		if r.Sent != 600 || r.Admitted != 450 || r.Denied != 150 {
			t.Errorf("got %d sent, %d admitted, %d denied, want 600, 450, 150", r.Sent, r.Admitted, r.Denied)
		}
		if most := f.most.Load(); most < 19 || most > 21 {
			t.Errorf("got %d in flight, want 20", most)
		}
		if got := r.Latency.At(99); got < 100*time.Millisecond || got > 101*time.Millisecond {
			t.Errorf("p99: got %v, want 100ms", got)
		}
		if len(r.PerSecond) != 4 || r.PerSecond[1] != 200 {
			t.Errorf("got %v answered per second, want 200 in the second one", r.PerSecond)
		}
	})
}

// Two connections of 10 requests a second each carry 20 of 100 a second. The others wait until the drain ends, and are
// in the histogram.
func TestOverloadIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{takes: 100 * time.Millisecond}
		r := do(t, Options{Target: f, Rate: 100, Duration: 5 * time.Second, Drain: time.Second, Connections: 2})
		if r.Sent < 118 || r.Sent > 122 || r.Sent+r.Unsent != 500 {
			t.Errorf("got %d sent and %d not sent, want 120 and 380", r.Sent, r.Unsent)
		}
		if r.Seconds > 6.001 {
			t.Errorf("got an end after %.3f s, want 6 s", r.Seconds)
		}
		if most := f.most.Load(); most != 2 {
			t.Errorf("got %d in flight, want 2", most)
		}
		if got := r.Latency.At(50); got < 2*time.Second {
			t.Errorf("median: got %v, want above 2s", got)
		}
	})
}

func TestSaturationSendsAsAnswersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{takes: 10 * time.Millisecond}
		r := do(t, Options{Target: f, Duration: 2 * time.Second, Connections: 5})
		if r.Sent != 1000 || r.Achieved < 499 || r.Achieved > 501 {
			t.Errorf("got %d sent, %.1f per second, want 1000, 500", r.Sent, r.Achieved)
		}
	})
}

func TestRandomTimesHaveTheAverageRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTarget{takes: time.Millisecond}
		r := do(t, Options{Target: f, Rate: 1000, Poisson: true, Duration: 10 * time.Second})
		if r.Sent < 9500 || r.Sent > 10500 { // five standard deviations
			t.Errorf("got %d sent, want about 10000", r.Sent)
		}
	})
}

func TestErrorsAndTimeoutsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := do(t, Options{Target: &fakeTarget{err: errors.New("broken")}, Rate: 10, Duration: time.Second})
		if r.Errors != 10 || r.Achieved != 0 || r.FirstError != "broken" {
			t.Errorf("got %d errors, %g answers a second, first %q", r.Errors, r.Achieved, r.FirstError)
		}
		slow := &fakeTarget{takes: time.Minute}
		r = do(t, Options{Target: slow, Rate: 10, Duration: time.Second, Timeout: 100 * time.Millisecond})
		if r.Errors != 10 || !strings.Contains(r.FirstError, "deadline") {
			t.Errorf("got %d errors, first %q, want 10 that timed out", r.Errors, r.FirstError)
		}
	})
}

func TestInterruptKeepsFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1050*time.Millisecond, cancel)
		run, err := New(Options{Target: &fakeTarget{takes: time.Millisecond}, Rate: 10, Duration: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		run.coarse = 0
		if r := run.Do(ctx); r.Sent != 11 || r.Unsent != 0 || r.Seconds > 1.06 {
			t.Errorf("got %d sent, %d not sent, in %.2f s, want 11 in 1.05 s", r.Sent, r.Unsent, r.Seconds)
		}
	})
}

// A target that never answers fails all requests: none is missing, and each is in the histogram.
func TestRequestsWithoutResponseAreErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		rate           float64
		poisson        bool
		errors, unsent int64
	}{
		"fewer requests than connections": {rate: 20, errors: 20},
		"more requests than connections":  {rate: 100, errors: 64, unsent: 36},
		"saturated":                       {errors: 64},
		"many unsent":                     {rate: 5e6, errors: 64, unsent: 5e6 - 64},
		"random times":                    {rate: 2e6, poisson: true, errors: 64, unsent: 2e6},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := do(t, Options{
				Target: &fakeTarget{takes: time.Hour}, Rate: tt.rate, Poisson: tt.poisson, Duration: time.Second,
			})
			wrong := r.Unsent - tt.unsent
			if tt.poisson && max(wrong, -wrong) < 10_000 { // seven standard deviations
				wrong = 0
			}
			if r.Sent != tt.errors || r.Errors != tt.errors || wrong != 0 || r.FirstError != errUnanswered.Error() {
				t.Errorf("%s: got %d sent, %d errors, %d not sent, %q, want %d errors and %d not sent", name, r.Sent, r.Errors,
					r.Unsent, r.FirstError, tt.errors, tt.unsent)
			}
			if got := r.Latency.At(50); got < 2*time.Second || got > 3010*time.Millisecond {
				t.Errorf("%s: got a median of %v, want 2s to 3s", name, got)
			}
			if r.PerSecond[0] != 0 || r.Interrupted != 0 {
				t.Errorf("%s: got %v decisions a second, %d interrupted, want none", name, r.PerSecond, r.Interrupted)
			}
		})
	}
}

func TestInterruptCountsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1050*time.Millisecond, cancel)
		run, err := New(Options{
			Target: &fakeTarget{takes: time.Hour}, Rate: 10, Duration: time.Minute, Connections: 4, Timeout: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		run.coarse = 0
		r := run.Do(ctx)
		if r.Interrupted != 4 || r.Unsent != 7 || r.Sent != 0 || r.Errors != 0 {
			t.Errorf("got %d interrupted, %d not sent, %d sent, %d errors, want 4 and 7", r.Interrupted, r.Unsent, r.Sent, r.Errors)
		}
		if got := r.Latency.Max(); got < 1040*time.Millisecond || got > 1060*time.Millisecond {
			t.Errorf("got %v as the longest latency, want 1.05s", got)
		}
	})
}

func TestImpossibleOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{
		{},
		{Rate: -1, Duration: 1},
		{Rate: MaxRate + 1, Duration: 1},
		{Duration: MaxDuration + 1},
		{Duration: 1, Connections: MaxConnections + 1},
		{Duration: 1, Clients: -1},
		{Duration: 1, Poisson: true},
		{Duration: 1, Timeout: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}

func TestRequestsAreSentWhenDueInRealTime(t *testing.T) {
	run, err := New(Options{Target: &fakeTarget{}, Rate: 500, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if r := run.Do(t.Context()); r.Sent != 100 || r.Unsent != 0 || r.Seconds < 0.198 {
		t.Errorf("got %d sent, %d not sent, in %.3f s, want 100 in 0.2 s", r.Sent, r.Unsent, r.Seconds)
	}
}
