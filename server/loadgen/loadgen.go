// Package loadgen sends requests to a limiter at a rate that does not depend on its responses. It measures the latency
// of each request from the time at which the request was due, not from the time at which it was sent.
package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/server/loadgen/target"
)

// The bounds of Options.
const (
	MaxRate        = 10_000_000
	MaxDuration    = 24 * time.Hour
	MaxConnections = 4096
	MaxClients     = 100_000_000
)

// Options are the settings of a Run.
type Options struct {
	// Target decides the requests.
	Target target.Target
	// Name is the name of the target in reports.
	Name string
	// Rate is the number of requests per second. Default 0: each connection sends its next request when it has the
	// response to the previous one, so that the target is saturated.
	Rate float64
	// Poisson sends requests at random times with the average rate Rate, instead of at equal intervals.
	Poisson bool
	// Duration is the time in which requests are due.
	Duration time.Duration
	// Drain is the time after Duration in which late requests are still sent. Requests are late if all connections were
	// busy. Default DefaultDrain.
	Drain time.Duration
	// Connections is the maximum number of requests in flight. Default DefaultConnections.
	Connections int
	// Clients is the number of clients. Each request is of a random client. Default DefaultClients.
	Clients int
	// Timeout is the timeout of a request. Default DefaultTimeout.
	Timeout time.Duration
	// Prefix is the first part of the clients' names.
	Prefix string
}

// The defaults of Options.
const (
	DefaultDrain       = 2 * time.Second
	DefaultConnections = 64
	DefaultClients     = 10_000
	DefaultTimeout     = 5 * time.Second
)

func (o *Options) validate() error {
	if o.Drain == 0 {
		o.Drain = DefaultDrain
	}
	if o.Connections == 0 {
		o.Connections = DefaultConnections
	}
	if o.Clients == 0 {
		o.Clients = DefaultClients
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	switch {
	case o.Rate < 0 || o.Rate > MaxRate:
		return fmt.Errorf("rate %g: want 0 to %d requests per second", o.Rate, MaxRate)
	case o.Duration <= 0 || o.Duration > MaxDuration:
		return fmt.Errorf("duration %v: want more than 0, up to %v", o.Duration, MaxDuration)
	case o.Connections < 1 || o.Connections > MaxConnections:
		return fmt.Errorf("%d connections: want 1 to %d", o.Connections, MaxConnections)
	case o.Clients < 1 || o.Clients > MaxClients:
		return fmt.Errorf("%d clients: want 1 to %d", o.Clients, MaxClients)
	case o.Timeout < 0 || o.Drain < 0:
		return fmt.Errorf("timeout %v, drain %v: want durations above 0", o.Timeout, o.Drain)
	case o.Poisson && o.Rate == 0:
		return errors.New("random times require a rate")
	}
	return nil
}

// A Run sends requests to one target. Create it with New and call Do once.
type Run struct {
	o      Options
	stats  *stats
	coarse time.Duration // the last part of a wait, for which pause is used because timers are not precise

	mu       sync.Mutex
	schedule schedule
}

// New returns a run that has not started.
func New(o Options) (*Run, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Run{
		o: o, stats: newStats(o.Duration), coarse: coarse, schedule: schedule{rate: o.Rate, poisson: o.Poisson},
	}, nil
}

// Do sends requests until the duration and the drain have passed, or ctx ends. It returns when all senders have
// stopped.
func (r *Run) Do(ctx context.Context) Report {
	start := time.Now()
	r.stats.begin(start)
	deadline := start.Add(r.o.Duration + r.o.Drain)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var senders sync.WaitGroup
	for i := range r.o.Connections {
		senders.Go(func() {
			if r.o.Rate == 0 {
				r.saturate(ctx, start, i)
			} else {
				r.send(ctx, start, i)
			}
		})
	}
	senders.Wait()
	r.stats.end(time.Now())
	if r.o.Rate > 0 {
		r.countUnsent(start)
	}
	return r.Report()
}

// next returns when the next request is due, counted from the start. It returns false if the duration has passed.
func (r *Run) next() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.schedule.next()
	return due, due < r.o.Duration
}

// send sends requests when they are due, or immediately if they are late because all connections were busy.
func (r *Run) send(ctx context.Context, start time.Time, sender int) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		offset, ok := r.next()
		if !ok {
			return
		}
		due := start.Add(offset)
		if wait := time.Until(due) - r.coarse; wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return // the request is not due yet, so it does not count as unsent
			}
		}
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			pause(wait)
		}
		r.request(ctx, start, due, sender)
	}
}

// saturate sends the next request as soon as it has the response to the previous one.
func (r *Run) saturate(ctx context.Context, start time.Time, sender int) {
	for ctx.Err() == nil && time.Since(start) < r.o.Duration {
		r.request(ctx, start, time.Now(), sender)
	}
}

func (r *Run) request(ctx context.Context, start, due time.Time, sender int) {
	name := r.o.Prefix + strconv.Itoa(rand.IntN(r.o.Clients))
	takeCtx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	sent := time.Now()
	outcome, err := r.o.Target.Take(takeCtx, name)
	responded := time.Now()
	cancel()
	a := answer{
		outcome: outcome, err: err, at: responded.Sub(start), latency: responded.Sub(due), service: responded.Sub(sent),
	}
	switch ended := ctx.Err(); {
	case err == nil || ended == nil:
	case errors.Is(ended, context.DeadlineExceeded): // the end of the drain
		a.err = errUnanswered
	default:
		a.interrupted = true
	}
	r.stats.add(sender, a)
}

// errUnanswered is the error of requests that are in flight at the end of the drain.
var errUnanswered = errors.New("no response until the end of the run")

// countUnsent counts requests that were due before the end but were never sent. They have waited until now, so without
// them the report would omit the longest latencies. If there are many, it records the same time for several of them.
func (r *Run) countUnsent(start time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed, s := r.stats.elapsed(), &r.schedule
	isUnsent := func(due time.Duration) bool { return due < r.o.Duration && due <= elapsed }
	n := max(1, int64(r.o.Rate*r.o.Duration.Seconds())/maxUnsentTimes)
	for {
		for n > 1 && !isUnsent(s.after(n-1)) {
			n /= 2
		}
		due := s.next()
		if !isUnsent(due) {
			return
		}
		s.skip(n - 1)
		r.stats.addUnsent(n, time.Since(start.Add(due)))
	}
}

// maxUnsentTimes is about how many times of unsent requests are recorded.
const maxUnsentTimes = 1_000_000

// A schedule computes when requests are due.
type schedule struct {
	rate    float64
	poisson bool
	n       int64   // number of requests so far; not used with poisson
	at      float64 // time of the last request in seconds; only used with poisson
}

// next returns the time from the start at which the next request is due.
func (s *schedule) next() time.Duration {
	if s.poisson {
		s.at += rand.ExpFloat64() / s.rate
		return seconds(s.at)
	}
	s.n++
	return seconds(float64(s.n-1) / s.rate)
}

// after returns the time at which the request after the next n requests is due; with poisson, the mean of that time.
func (s *schedule) after(n int64) time.Duration {
	if s.poisson {
		return seconds(s.at + float64(n+1)/s.rate)
	}
	return seconds(float64(s.n+n) / s.rate)
}

// skip skips n requests.
func (s *schedule) skip(n int64) {
	s.n += n
	s.at += float64(n) / s.rate
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
