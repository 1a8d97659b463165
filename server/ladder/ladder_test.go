package ladder

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/loadgen/target"
)

// rateAlgorithms returns the algorithms that have a rate.
func rateAlgorithms() (all []headgate.Algorithm) {
	for _, a := range headgate.Algorithms() {
		if a != headgate.Concurrency {
			all = append(all, a)
		}
	}
	return all
}

// climb runs the ladder in virtual time against 20/s, from a time after midnight.
func climb(t *testing.T, a headgate.Algorithm, after time.Duration, each bool) []Result {
	t.Helper()
	clock := NewVirtualClock(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).Add(after))
	limit := headgate.Limit{Algorithm: a, Count: 20, Period: time.Second}
	store, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: limit, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	results, err := Run(t.Context(), Options{
		Target: store, Algorithm: a.String(), Limit: limit, Steps: DefaultSteps, Clock: clock, Client: "test", Each: each,
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestEveryStepEndsWithinAPeriodOfTheOracle(t *testing.T) {
	for _, a := range rateAlgorithms() {
		for _, after := range []time.Duration{0, 137 * time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
			results := climb(t, a, after, false)
			if len(results) != len(DefaultSteps) {
				t.Fatalf("%s: got %d results, want %d", a, len(results), len(DefaultSteps))
			}
			for _, r := range results {
				if !r.WithinOnePeriod || r.Admitted != r.Requests {
					t.Errorf("%s from %v, step %s: got %d of %d in %.3f s, the oracle says %.3f s",
						a, after, r.Step, r.Admitted, r.Requests, r.Seconds, r.Oracle)
				}
			}
		}
	}
}

// The figures follow from the limit: 20 pass at once and the other 980 at 20/s.
func TestTokenBucketTakesExactlyTheOraclesTime(t *testing.T) {
	for i, r := range climb(t, headgate.TokenBucket, 0, false) {
		want := []float64{10, 10, 10, 10, 10, 11.54, 24.02, 49.01}[i]
		if diff := r.Seconds - want; diff > 0.001 || diff < -0.001 || r.Oracle != want {
			t.Errorf("step %s: got %.6f s and %.6f s by the oracle, want %.2f s", r.Step, r.Seconds, r.Oracle, want)
		}
		sum := 0
		for _, n := range r.Passed {
			sum += n
		}
		if sum != r.Requests {
			t.Errorf("step %s: got %d requests in the seconds, want %d", r.Step, sum, r.Requests)
		}
	}
}

// A limiter that admits everything, or a fifth too little, is noticed.
func TestWrongLimiterIsNotWithinAPeriod(t *testing.T) {
	for name, count := range map[string]int64{"no limit": 1_000_000, "a fifth too little": 16} {
		clock := NewVirtualClock(time.Unix(0, 0))
		limit := headgate.PerSecond(count)
		wrong, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: limit, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = wrong.Close() }()
		results, err := Run(t.Context(), Options{
			Target: wrong, Limit: headgate.PerSecond(20), Steps: []Step{{1000, 100}}, Clock: clock,
		})
		if err != nil {
			t.Fatal(err)
		}
		if results[0].WithinOnePeriod {
			t.Errorf("%s: got %.2f s, within a period of %.2f s", name, results[0].Seconds, results[0].Oracle)
		}
	}
}

func TestRealTimeIsThatOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := headgate.PerSecond(20)
		store, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		start := time.Now()
		steps := []Step{{100, 100}}
		results, err := Run(t.Context(), Options{Target: store, Limit: limit, Steps: steps, Clock: SystemClock{}})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start).Seconds(); took < 4 || took > 4.1 || !results[0].WithinOnePeriod {
			t.Errorf("got %.3f s and %+v, want 4.01 s", took, results[0])
		}
	})
}

// A slowService is a gateway whose service responds late. A denial comes at once, with whole seconds.
type slowService struct{ target.Target }

func (s slowService) Take(ctx context.Context, client string) (target.Outcome, error) {
	out, err := s.Target.Take(ctx, client)
	out.Coarse, out.RetryAfter = true, time.Second
	if out.Allowed {
		time.Sleep(300 * time.Millisecond)
	}
	return out, err
}

func TestSlowServiceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := headgate.PerSecond(20)
		store, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		results, err := Run(t.Context(), Options{
			Target: slowService{store}, Limit: limit, Steps: []Step{{200, 100}}, Clock: SystemClock{}, InFlight: 8,
		})
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; !r.WithinOnePeriod || r.Admitted != 200 {
			t.Errorf("got %d in %.3f s, want 200 within a period of %.3f s", r.Admitted, r.Seconds, r.Oracle)
		}
	})
}

func TestInterruptKeepsResults(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := NewVirtualClock(time.Unix(0, 0))
	limit := headgate.PerSecond(20)
	store, err := target.Open(ctx, target.Options{Address: target.Memory, Limit: limit, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	results, err := Run(ctx, Options{
		Target: store, Limit: limit, Steps: []Step{{10, 1}, {20, 2}}, Clock: clock,
		Progress: func(r Result) {
			if r.Step == "20@2" && r.Admitted == 7 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "20@2") {
		t.Errorf("got error %v, want that step 20@2 was canceled", err)
	}
	if len(results) != 2 || results[0].Admitted != 10 || results[1].Admitted != 7 || results[1].WithinOnePeriod {
		t.Errorf("got %+v, want 10 and 7 admitted", results)
	}
}

func TestStepsAreParsed(t *testing.T) {
	if s, err := ParseStep("250@25"); err != nil || s != (Step{250, 25}) {
		t.Errorf("got %v, %v", s, err)
	}
	for _, text := range []string{"", "10", "@", "10@", "@1", "0@1", "1@0", "-1@1", "1e3@1", "1000001@1", "1@100001"} {
		if s, err := ParseStep(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, s)
		}
	}
}

// The oracle does not know in which order requests are retried.
func TestLadderWithRetriesOfEachRequest(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	for _, a := range rateAlgorithms() {
		inLine, each := climb(t, a, 137*time.Millisecond, false), climb(t, a, 137*time.Millisecond, true)
		for i, r := range each {
			if !r.WithinOnePeriod || r.Admitted != r.Requests {
				t.Errorf("%s, step %s: got %d of %d in %.3f s, the oracle says %.3f s", a, r.Step, r.Admitted, r.Requests,
					r.Seconds, r.Oracle)
			}
			if r.Attempts < inLine[i].Attempts {
				t.Errorf("%s, step %s: got %d attempts, want at least the %d of a line", a, r.Step, r.Attempts, inLine[i].Attempts)
			}
		}
		if last := len(each) - 1; a != headgate.LeakyBucket && each[last].Attempts < 2*inLine[last].Attempts {
			t.Errorf("%s: got %d attempts, want far more than the %d of a line", a, each[last].Attempts, inLine[last].Attempts)
		}
	}
}

func TestEachRequestIsRetriedInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := headgate.PerSecond(20)
		store, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: limit, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		results, err := Run(t.Context(), Options{
			Target: store, Limit: limit, Steps: []Step{{60, 100}}, Clock: SystemClock{}, Client: "test", Each: true,
		})
		if err != nil || len(results) != 1 || !results[0].WithinOnePeriod || results[0].Attempts < 200 {
			t.Errorf("got %+v, error %v, want 60 admitted within a period of 2.01 s, after many denials", results, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A step can take years of virtual time, with few columns.
func TestLongStepHasFewColumns(t *testing.T) {
	for name, tt := range map[string]struct {
		limit headgate.Limit
		step  Step
		years float64
	}{
		"a unit a year": {headgate.Per(1, 365*24*time.Hour), Step{5, 1}, 4},
		"a unit a day":  {headgate.PerDay(1), Step{1000, 100}, 999.0 / 365},
	} {
		clock := NewVirtualClock(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
		store, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: tt.limit, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		results, err := Run(t.Context(), Options{
			Target: store, Limit: tt.limit, Steps: []Step{tt.step}, Clock: clock, Client: "test",
		})
		if err := errors.Join(err, store.Close()); err != nil {
			t.Fatal(err)
		}
		r, sum := results[0], 0
		for _, n := range r.Passed {
			sum += n
		}
		if !r.WithinOnePeriod || sum != tt.step.Requests {
			t.Errorf("%s: got %g s, %d requests in columns, want %g s and %d", name, r.Seconds, sum, r.Oracle, tt.step.Requests)
		}
		columns, width, seconds := float64(len(r.Passed)), float64(r.SecondsPerColumn), tt.years*365*24*3600
		if columns > maxColumns || columns < maxColumns/2 || columns*width < seconds || (columns-1)*width > seconds+1 {
			t.Errorf("%s: got %g columns of %g s, want at most %d for %g s", name, columns, width, maxColumns, seconds)
		}
	}
}

func TestStepsThatTakeTooLongAreRefused(t *testing.T) {
	day := headgate.PerDay(1)
	if got := Oracle(Step{1_000_000, 100_000}, day); got != math.MaxInt64 {
		t.Errorf("got %v by the oracle, want the longest time", got)
	}
	many := make([]Step, 200)
	for i := range many {
		many[i] = Step{366, 366} // a year
	}
	for want, steps := range map[string][]Step{
		"step 1000000@100000 takes more than 292 years": {{1_000_000, 100_000}},
		"step 100000@1000 takes 274 years":              {{1, 1}, {100_000, 1000}},
		"the steps take more than 100 years":            many,
	} {
		_, err := Run(t.Context(), Options{Limit: day, Steps: steps})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
