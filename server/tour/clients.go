package tour

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// perClient is the limit of every client in the first scene.
var perClient = headgate.MustParseLimit("10/s burst 20")

// cells is the number of parts of the bars in the first scene.
const cells = 24

// A client sends requests: each of its senders sends a batch of requests at an interval.
type client struct {
	name    string
	senders int
	after   time.Duration // delay of its first request
	every   time.Duration
	batch   int

	parts   [cells]tally
	retryAt atomic.Int64 // when to retry after the latest denial, in ns since the start; 0 if the latest request passed
}

// A tally counts decisions.
type tally struct{ allowed, denied atomic.Int64 }

// A count is the value of a tally.
type count struct{ allowed, denied int64 }

func (c count) asked() int64 { return c.allowed + c.denied }

func (t *tally) count() count { return count{t.allowed.Load(), t.denied.Load()} }

// total returns the sum of all parts.
func (c *client) total() count {
	var sum count
	for i := range c.parts {
		part := c.parts[i].count()
		sum.allowed += part.allowed
		sum.denied += part.denied
	}
	return sum
}

// neighbours returns one client that sends 50 times its limit, and three clients that stay below their limit with
// different patterns.
func neighbours() []*client {
	return []*client{
		{name: "noisy", senders: 5, after: 60 * time.Millisecond, every: 10 * time.Millisecond, batch: 1},
		{name: "alice", senders: 1, every: time.Second / 8, batch: 1},
		{name: "bob", senders: 1, every: time.Second / 5, batch: 1},
		{name: "carol", senders: 1, every: 2 * time.Second, batch: 12},
	}
}

// A flood is a set of clients that send to one limiter at the same time.
type flood struct {
	clients  []*client
	limiter  headgate.Limiter
	duration time.Duration
	start    time.Time
	elapsed  time.Duration // duration, once run has returned
}

// newFlood returns a flood that starts now.
func newFlood(limiter headgate.Limiter, duration time.Duration) *flood {
	return &flood{clients: neighbours(), limiter: limiter, duration: duration, start: time.Now()}
}

// run sends the requests of all clients until the flood ends or ctx is done. Each sender has its own goroutine. run
// returns when all have stopped, with the first error of a decision.
func (f *flood) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeout(ctx, f.duration)
	defer stop()
	var senders sync.WaitGroup
	for _, c := range f.clients {
		for i := range c.senders {
			after := c.after + time.Duration(i)*c.every/time.Duration(c.senders)
			senders.Go(func() {
				if err := f.send(ctx, c, after); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}
	}
	senders.Wait()
	f.elapsed = time.Since(f.start)
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func (f *flood) send(ctx context.Context, c *client, after time.Duration) error {
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return nil
	}
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	check := headgate.Check{Key: c.name, Limit: perClient, Cost: 1}
	for {
		for range c.batch {
			d, err := f.limiter.Take(ctx, check)
			if err != nil {
				return err
			}
			c.note(d, time.Since(f.start), f.duration)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// note counts a decision. at is its time since the start.
func (c *client) note(d headgate.Decision, at, duration time.Duration) {
	part := &c.parts[partAt(at, duration)]
	if d.Allowed {
		part.allowed.Add(1)
		c.retryAt.Store(0)
		return
	}
	part.denied.Add(1)
	c.retryAt.Store(int64(at + d.RetryAfter))
}

// partAt returns the part of the flood that a time since its start belongs to.
func partAt(at, duration time.Duration) int { return int(min(cells*at/duration, cells-1)) }

// A sample has the counts of all clients at a time since the start.
type sample struct {
	at     time.Duration
	counts []count
}

// emptySample returns the sample at the start, before any client has sent a request.
func (f *flood) emptySample() sample { return sample{counts: make([]count, len(f.clients))} }

func (f *flood) sample() sample {
	s := f.emptySample()
	s.at = time.Since(f.start)
	for i, c := range f.clients {
		s.counts[i] = c.total()
	}
	return s
}

// perSecond returns the rates of client i since an earlier sample.
func (s sample) perSecond(i int, earlier sample) count {
	span := max(s.at-earlier.at, time.Millisecond)
	rate := func(now, before int64) int64 {
		return int64(math.Round(float64(now-before) / span.Seconds()))
	}
	return count{
		allowed: rate(s.counts[i].allowed, earlier.counts[i].allowed),
		denied:  rate(s.counts[i].denied, earlier.counts[i].denied),
	}
}
