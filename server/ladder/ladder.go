// Package ladder tests a limit with steps of growing request rates. It retries each request until it is admitted, and
// compares the duration of each step with the shortest time that the limit allows.
package ladder

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/loadgen/target"
)

// A Step is a number of requests that are sent at a rate.
type Step struct {
	Requests int // number of requests
	Rate     int // per second
}

// DefaultSteps has rates from far below a limit of 20/s to far above it.
var DefaultSteps = []Step{{10, 1}, {20, 2}, {50, 5}, {100, 10}, {200, 20}, {250, 25}, {500, 50}, {1000, 100}}

// The maximum size of steps, and the maximum number of steps.
const (
	maxRequests = 1_000_000
	maxRate     = 100_000
	maxSteps    = 1000
)

// ParseStep reads a step such as "250@25".
func ParseStep(text string) (Step, error) {
	requests, rate, found := strings.Cut(text, "@")
	n, errN := strconv.Atoi(strings.TrimSpace(requests))
	r, errR := strconv.Atoi(strings.TrimSpace(rate))
	if !found || errN != nil || errR != nil || n < 1 || n > maxRequests || r < 1 || r > maxRate {
		return Step{}, fmt.Errorf("step %q: want REQUESTS@RATE such as 250@25, at most %d@%d", text, maxRequests, maxRate)
	}
	return Step{n, r}, nil
}

func (s Step) String() string { return fmt.Sprintf("%d@%d", s.Requests, s.Rate) }

// arrival returns the time from the start of the step at which request i is sent. The first request is sent one
// interval after the start, so that a step without denials lasts Requests/Rate.
func (s Step) arrival(i int) time.Duration {
	return time.Duration(float64(i+1) / float64(s.Rate) * float64(time.Second))
}

// Oracle returns the shortest possible duration of a step if at most burst + rate·t units may be admitted in a time t.
// The last request is admitted when it is sent or when there are enough units for all requests, whichever is later.
// Oracle does not depend on the algorithm of the limit. It returns at most the longest time.Duration.
func Oracle(s Step, l headgate.Limit) time.Duration {
	lastSent := s.arrival(s.Requests - 1)
	missing := float64(int64(s.Requests) - l.Capacity())
	// Until the first request, the limit is at its capacity, so units are restored only after that.
	enoughUnits := float64(s.arrival(0)) + missing/float64(l.Count)*float64(l.Period)
	if enoughUnits >= math.MaxInt64 {
		return math.MaxInt64
	}
	return max(lastSent, time.Duration(enoughUnits))
}

// A Result is the outcome of one step.
type Result struct {
	Algorithm string `json:"algorithm"`
	Step      string `json:"step"`
	Requests  int    `json:"requests"`
	Rate      int    `json:"rate"` // per second
	// Admitted is the number of admitted requests. It is less than Requests if the step was interrupted.
	Admitted int `json:"admitted"`
	// Attempts is the number of attempts, including denied ones.
	Attempts int     `json:"attempts"`
	Seconds  float64 `json:"seconds"`
	// Achieved is the rate of admitted requests per second.
	Achieved float64 `json:"achieved_per_second"`
	Oracle   float64 `json:"oracle_seconds"`
	// WithinOnePeriod reports whether the duration of the step differs from the oracle's by at most one period.
	WithinOnePeriod bool `json:"within_one_period"`
	// Passed has the number of requests admitted in each column of SecondsPerColumn seconds. That is one second, unless
	// there would be more than maxColumns.
	Passed           []int `json:"admitted_per_column"`
	SecondsPerColumn int   `json:"seconds_per_column"`
}

// maxColumns is the maximum number of columns of Result.Passed.
const maxColumns = 3600

// Options are the settings of Run.
type Options struct {
	// Target decides the requests. If Clock is virtual, Target must use it too.
	Target target.Target
	// Algorithm is the name of the algorithm in results.
	Algorithm string
	// Limit is the limit that the target applies. The oracle's time is calculated from it, and so are the intervals of
	// retries if the target only reports whole seconds.
	Limit headgate.Limit
	// Steps are run one after the other.
	Steps []Step
	// Clock provides the time and sleeps until requests are due.
	Clock Clock
	// InFlight is the number of requests that are tried at the same time. Default 1, which is the maximum for a
	// VirtualClock. A slow target, such as a service behind a gateway, needs more.
	InFlight int
	// Each makes every request retry on its own. By default, requests wait in a queue, and only the first InFlight of them
	// retry.
	Each bool
	// Client is the first part of the names of the clients. Each step has its own client, which has not used any units.
	Client string
	// Progress, if set, is called after each admitted request.
	Progress func(Result)
}

func (o *Options) validate() error {
	if err := o.Limit.Validate(); err != nil {
		return err
	}
	if o.Limit.Period == 0 {
		return fmt.Errorf("%s limits have no rate, so they cannot be tested with growing rates", o.Limit.Algorithm)
	}
	if len(o.Steps) == 0 || len(o.Steps) > maxSteps {
		return fmt.Errorf("got %d steps, want 1 to %d", len(o.Steps), maxSteps)
	}
	total := time.Duration(0)
	for _, s := range o.Steps {
		takes := Oracle(s, o.Limit)
		if takes > maxDuration {
			return fmt.Errorf("step %s takes %s with the limit %v: want fewer requests or a higher limit", s, years(takes), o.Limit)
		}
		if total += takes; total > maxDuration {
			return fmt.Errorf("the steps take more than %s with the limit %v: want fewer of them or a higher limit",
				years(maxDuration), o.Limit)
		}
	}
	return nil
}

// maxDuration is the maximum duration of all steps. Within it, no time overflows.
const maxDuration = 100 * 365 * 24 * time.Hour

// years formats a long duration.
func years(d time.Duration) string {
	if d == math.MaxInt64 {
		return "more than 292 years"
	}
	return fmt.Sprintf("%.0f years", d.Hours()/24/365)
}

// Run runs the steps and returns their results. If ctx ends, it returns the results so far and the error of ctx.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	var results []Result
	for i, step := range o.Steps {
		r, err := o.run(ctx, step, o.Client+"-"+strconv.Itoa(i))
		if r.Attempts > 0 {
			results = append(results, r)
		}
		if err != nil {
			return results, fmt.Errorf("step %s: %w", step, err)
		}
	}
	return results, nil
}

// takeTimeout limits the time of one decision.
const takeTimeout = 15 * time.Second

// run runs one step. Unless Options.Each is set, requests wait in a queue, and only the first Options.InFlight of them
// are retried. The others need not be tried, because they have the same cost and would also be denied.
func (o *Options) run(ctx context.Context, s Step, client string) (Result, error) {
	r := &stepRun{o: o, step: s, client: client, start: o.Clock.Now(), result: Result{
		Algorithm: o.Algorithm, Step: s.String(), Requests: s.Requests, Rate: s.Rate, Oracle: Oracle(s, o.Limit).Seconds(),
		SecondsPerColumn: 1,
	}}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	send, senders := r.send, max(o.InFlight, 1)
	if o.Each {
		senders = s.Requests
		if _, virtual := o.Clock.(*VirtualClock); virtual {
			send, senders = r.sendInOrder, 1
		}
	}
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			if err := send(ctx); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	err := context.Cause(ctx)
	if err == nil {
		err = o.Clock.SleepUntil(ctx, r.start.Add(r.last)) // the leaky bucket delays the last request
	}
	result := r.result
	difference := math.Abs(result.Seconds - result.Oracle)
	result.WithinOnePeriod = result.Admitted == s.Requests && difference <= o.Limit.Period.Seconds()
	return result, err
}

// A stepRun is a step that is being run.
type stepRun struct {
	o      *Options
	step   Step
	client string
	start  time.Time

	mu     sync.Mutex
	sent   int           // number of requests that have left the queue
	last   time.Duration // when the last request was admitted, counted from the start
	result Result
}

// send sends requests of the queue, one after the other, until the queue is empty.
func (r *stepRun) send(ctx context.Context) error {
	for {
		r.mu.Lock()
		i := r.sent
		r.sent++
		r.mu.Unlock()
		if i >= r.step.Requests {
			return nil
		}
		if err := r.o.Clock.SleepUntil(ctx, r.start.Add(r.step.arrival(i))); err != nil {
			return err
		}
		admittedAt, err := r.admit(ctx)
		if err != nil {
			return err
		}
		r.add(admittedAt)
	}
}

// add counts an admitted request.
func (r *stepRun) add(admittedAt time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, admittedAt)
	r.result.add(admittedAt, r.last)
	if r.o.Progress != nil {
		r.o.Progress(r.result)
	}
}

// add counts an admitted request. last is the time of the latest admission so far.
func (r *Result) add(admittedAt, last time.Duration) {
	r.Admitted++
	r.Seconds = last.Seconds()
	r.Achieved = float64(r.Admitted) / r.Seconds
	second := int(admittedAt / time.Second)
	for second/r.SecondsPerColumn >= maxColumns {
		r.SecondsPerColumn *= 2
		for i, n := range r.Passed {
			r.Passed[i] = 0
			r.Passed[i/2] += n
		}
		r.Passed = r.Passed[:(len(r.Passed)+1)/2]
	}
	for len(r.Passed) <= second/r.SecondsPerColumn {
		r.Passed = append(r.Passed, 0)
	}
	r.Passed[second/r.SecondsPerColumn]++
}

// admit retries a request until it is admitted, and returns the time of the admission, counted from the start.
func (r *stepRun) admit(ctx context.Context) (time.Duration, error) {
	for {
		admittedAt, retryAt, err := r.try(ctx)
		if err != nil || retryAt.IsZero() {
			return admittedAt, err
		}
		if err := r.o.Clock.SleepUntil(ctx, retryAt); err != nil {
			return 0, err
		}
	}
}

// try makes one attempt. If the request is admitted, try returns the time of the admission, counted from the start. If
// it is denied, try returns the time of the next attempt.
func (r *stepRun) try(ctx context.Context) (admittedAt time.Duration, retryAt time.Time, err error) {
	o := r.o
	r.mu.Lock()
	r.result.Attempts++
	r.mu.Unlock()
	out, err := o.take(ctx, r.client)
	if err != nil {
		return 0, time.Time{}, err
	}
	now := o.Clock.Now()
	if out.Allowed {
		return now.Sub(r.start) + out.Delay, time.Time{}, nil
	}
	wait := max(out.RetryAfter, time.Microsecond)
	if out.Coarse {
		wait = min(wait, max(o.Limit.Period/time.Duration(o.Limit.Count), time.Millisecond))
	}
	return 0, now.Add(wait), nil
}

func (o *Options) take(ctx context.Context, client string) (target.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	return o.Target.Take(ctx, client)
}
