package lease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

var errCut = errors.New("connection cut")

// A leaseWire is how one node reaches the store of a test: with delays, or not at all. Its time is that of a synctest
// bubble.
type leaseWire struct {
	store *stepstore.Store
	delay func() time.Duration // one way; nil for none

	mu      sync.Mutex
	cut     bool
	paused  chan struct{} // closed when the node goes on; nil unless it is stopped
	calls   []time.Duration
	gives   int64 // units
	started time.Time
}

func newLeaseWire(store *stepstore.Store) *leaseWire {
	return &leaseWire{store: store, started: time.Now()}
}

func (w *leaseWire) sever(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// pause stops the node: it hears nothing until resume.
func (w *leaseWire) pause() (resume func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paused := make(chan struct{})
	w.paused = paused
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paused = nil
		close(paused)
	}
}

func (w *leaseWire) callsMade() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

// travel is one way of a call.
func (w *leaseWire) travel(ctx context.Context) error {
	w.mu.Lock()
	cut := w.cut
	var d time.Duration
	if w.delay != nil {
		d = w.delay()
	}
	w.mu.Unlock()
	if cut {
		return errCut
	}
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// call makes a call of the store; what it does may have been done although it fails.
func (w *leaseWire) call(ctx context.Context, do func() error) error {
	w.mu.Lock()
	w.calls = append(w.calls, time.Since(w.started))
	w.mu.Unlock()
	if err := w.travel(ctx); err != nil {
		return err
	}
	err := do()
	if lost := w.travel(ctx); lost != nil {
		return lost
	}
	w.mu.Lock()
	paused := w.paused
	w.mu.Unlock()
	if paused != nil {
		<-paused
	}
	return err
}

func (w *leaseWire) Grant(ctx context.Context, c headgate.Check, want, share int64) (d headgate.Decision, err error) {
	return d, w.call(ctx, func() error { d, err = w.store.Grant(ctx, c, want, share); return err })
}

func (w *leaseWire) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	return d, w.call(ctx, func() error { d, err = w.store.Take(ctx, c); return err })
}

func (w *leaseWire) Peek(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	return d, w.call(ctx, func() error { d, err = w.store.Peek(ctx, c); return err })
}

func (w *leaseWire) Charge(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	return d, w.call(ctx, func() error { d, err = w.store.Charge(ctx, c); return err })
}

func (w *leaseWire) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	return w.call(ctx, func() error {
		w.mu.Lock()
		w.gives += c.Cost
		w.mu.Unlock()
		return w.store.Give(ctx, c, r)
	})
}

func (w *leaseWire) Reset(ctx context.Context, c headgate.Check) error {
	return w.call(ctx, func() error { return w.store.Reset(ctx, c) })
}

// given returns how many units were handed back.
func (w *leaseWire) given() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gives
}

func newTestLease(t testing.TB, source Source, o Options) *Limiter {
	t.Helper()
	l, err := New(source, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil && !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// roundTrip is a delay for each way that makes a round trip of that length.
func roundTrip(d time.Duration) func() time.Duration { return func() time.Duration { return d / 2 } }

// mustLease takes, or peeks at a check that costs nothing.
func mustLease(t testing.TB, l headgate.Limiter, c headgate.Check) headgate.Decision {
	t.Helper()
	decide := l.Take
	if c.Cost == 0 {
		decide = l.Peek
	}
	d, err := decide(context.Background(), c)
	if err != nil {
		t.Fatalf("take %d of %s: %v", c.Cost, c.Key, err)
	}
	return d
}

// fixedMembers is a fleet of so many nodes.
type fixedMembers int

func (n fixedMembers) Live() int  { return int(n) }
func (n fixedMembers) Known() int { return int(n) }

// A passage is units that were let pass within a time.
type passage struct {
	from, to time.Duration
	units    int64
}

// A passages is all that passed of one key.
type passages struct {
	mu   sync.Mutex
	list []passage
}

func (p *passages) add(from, to time.Duration, units int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, passage{from, to, units})
}

func (p *passages) total() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.list {
		n += x.units
	}
	return n
}

// over returns what is wrong with what passed under a limit that was asked for first at time 0: more than the limit
// from the start, in some interval, or in some window. base is when time 0 was, for windows.
func (p *passages) over(l headgate.Limit, ttl time.Duration, base time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.Algorithm == headgate.FixedWindow {
		return p.overWindows(l, base)
	}
	// Passages lie somewhere between from and to. Those that are surely in an interval have both in it.
	byEnd := slices.Clone(p.list)
	slices.SortFunc(byEnd, func(a, b passage) int { return int(a.to - b.to) })
	rate := float64(l.Count) / float64(l.Period)
	burst := float64(l.Capacity()) + rate*float64(2*time.Microsecond) // clocks of different grain
	var sum int64
	for _, x := range byEnd {
		sum += x.units
		if most := burst + rate*float64(x.to); float64(sum) > most+1e-6 {
			return fmt.Errorf("%s: %d units until %v, want at most %.3f", l, sum, x.to, most)
		}
	}
	if l.Algorithm == headgate.SlidingWindow {
		return nil // its own bound is looser than that
	}
	return p.overIntervals(byEnd, burst+rate*float64(ttl), rate)
}

// overIntervals looks at all intervals that begin with a passage.
func (p *passages) overIntervals(byEnd []passage, room, rate float64) error {
	starts := slices.Clone(byEnd)
	slices.SortFunc(starts, func(a, b passage) int { return int(a.from - b.from) })
	// A thousand of the starts will do, and all if there are fewer.
	step := max(1, len(starts)/1000)
	for i := 0; i < len(starts); i += step {
		start := starts[i].from
		var sum int64
		for _, x := range byEnd {
			if x.from < start {
				continue
			}
			sum += x.units
			if most := room + rate*float64(x.to-start); float64(sum) > most+1e-6 {
				return fmt.Errorf("%d units from %v to %v, want at most %.3f", sum, start, x.to, most)
			}
		}
	}
	return nil
}

func (p *passages) overWindows(l headgate.Limit, base time.Time) error {
	sums := make(map[time.Time]int64)
	for _, x := range p.list {
		from, to := base.Add(x.from).Truncate(l.Period), base.Add(x.to).Truncate(l.Period)
		if !from.Equal(to) {
			continue // it is not known in which
		}
		if sums[from] += x.units; sums[from] > l.Count {
			return fmt.Errorf("%s: %d units in the window of %v, want at most %d", l, sums[from], from, l.Count)
		}
	}
	return nil
}

// A crowd of callers asks one node for a key, so many times a second in all, whether or not it is answered in time.
type leaseCrowd struct {
	limiter headgate.Limiter
	check   headgate.Check
	rate    float64
	workers int
	seed    uint64
	passed  *passages
	began   time.Time
	count   *counts
}

// counts are what came of requests.
type counts struct {
	mu                      sync.Mutex
	asked, allowed, refused int64
	slowest                 time.Duration
}

func (n *counts) add(allowed bool, took time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if allowed {
		n.allowed++
		n.slowest = max(n.slowest, took)
	} else {
		n.refused++
	}
}

// run asks until ctx ends. Arrivals are by chance.
func (c *leaseCrowd) run(ctx context.Context) error {
	var group sync.WaitGroup
	failed := make(chan error, c.workers)
	for i := range c.workers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(c.seed, uint64(i)))
			if err := c.work(ctx, rng); err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

func (c *leaseCrowd) work(ctx context.Context, rng *rand.Rand) error {
	due := time.Since(c.began)
	for ctx.Err() == nil {
		due += time.Duration(rng.ExpFloat64() * float64(c.workers) / c.rate * float64(time.Second))
		if wait := due - time.Since(c.began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				continue
			}
		}
		from := time.Since(c.began)
		d, err := c.limiter.Take(ctx, c.check)
		to := time.Since(c.began)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, headgate.ErrClosed) || errors.Is(err, errCut) {
				err = nil
			}
			return err
		}
		c.count.add(d.Allowed, to-from)
		if d.Allowed {
			c.passed.add(from, to, c.check.Cost)
		} else if d.RetryAfter <= 0 || d.Remaining >= c.check.Cost {
			return fmt.Errorf("denied %d with %+v, want a RetryAfter, and less remaining", c.check.Cost, d)
		}
	}
	return nil
}

func mostOf(l headgate.Limit, t time.Duration) float64 {
	return float64(l.Capacity()) + float64(l.Count)*float64(t)/float64(l.Period)
}

func percent(part, whole float64) float64 { return math.Round(part/whole*1e5) / 1e3 }
