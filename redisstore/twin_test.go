package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/stepstore"
)

// TestLuaDecidesAsGo makes random histories on a store in Redis and on the steps of package algorithm, and expects the
// same of both, to the microsecond.
func TestLuaDecidesAsGo(t *testing.T) {
	t.Parallel()
	if racing.Enabled {
		compareLuaAndGo(t, 16, 10_000)
	} else {
		compareLuaAndGo(t, 64, 200_000)
	}
}

// TestSoakLuaDecidesAsGo compares a million steps.
func TestSoakLuaDecidesAsGo(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it takes a minute: set HEADGATE_SOAK=1")
	}
	compareLuaAndGo(t, 64, 1_000_000)
}

func compareLuaAndGo(t *testing.T, histories, steps int) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	base := open(t, server.URL(), Options{Secret: testSecret})
	makeHistories(t, histories, steps, func(i, run uint64) func() error { return newHistory(t, base, i, run).step })
}

// makeHistories runs concurrent sequences of random histories until they have made the given number of steps.
func makeHistories(t *testing.T, histories, steps int, begin func(i, run uint64) (step func() error)) {
	t.Helper()
	const each = 200
	var done atomic.Int64
	var group sync.WaitGroup
	for i := range histories {
		group.Go(func() {
			for run := 0; done.Load() < int64(steps) && !t.Failed(); run++ {
				step := begin(uint64(i), uint64(run))
				for range each {
					if err := step(); err != nil {
						t.Errorf("history %d of %d: %v", run, i, err)
						return
					}
				}
				done.Add(each)
			}
		})
	}
	group.Wait()
	t.Logf("%d steps", done.Load())
}

// A history is one client with some limits, in Redis and in Go.
type history struct {
	rng      *rand.Rand
	now      time.Time
	redis    *Store
	steps    *stepstore.Store
	owner    string
	limits   []headgate.Limit
	receipts []receipts
}

// receipts are those of one take on both sides.
type receipts struct {
	check headgate.Check
	redis headgate.Receipt
	steps headgate.Receipt
}

func newHistory(t *testing.T, base *Store, i, run uint64) *history {
	h := &history{
		rng: rand.New(rand.NewPCG(i, run)), now: time.Unix(1_800_000_000, 0),
		owner: fmt.Sprintf("%s/%d/%d", t.Name(), i, run),
	}
	clock := func() time.Time { return h.now }
	h.redis = withClock(base, clock)
	h.steps = stepstore.New(clock)
	for range 1 + h.rng.IntN(4) {
		h.limits = append(h.limits, h.drawLimit())
	}
	return h
}

// drawNumber returns a random number from 1 to maximum. Small ones are as frequent as large ones.
func (h *history) drawNumber(maximum int64) int64 {
	bits := h.rng.IntN(64)
	return 1 + h.rng.Int64()>>bits%maximum
}

func (h *history) drawLimit() headgate.Limit {
	for {
		l := headgate.Limit{
			Algorithm: headgate.Algorithm(h.rng.IntN(len(headgate.Algorithms()))),
			Count:     h.drawNumber(headgate.MaxCount),
			Period:    time.Duration(h.drawNumber(int64(headgate.MaxPeriod/time.Microsecond))) * time.Microsecond,
		}
		if h.rng.IntN(2) == 0 {
			l.Count = h.drawNumber(20)
			l.Period = []time.Duration{time.Second, time.Minute, 700 * time.Millisecond, time.Hour}[h.rng.IntN(4)]
		}
		switch l.Algorithm {
		case headgate.Concurrency:
			l.TTL, l.Period = l.Period, 0
			l.Count = h.drawNumber(50)
		case headgate.SlidingLog:
			l.Count = h.drawNumber(200)
		case headgate.SlidingBuckets:
			l.Buckets = 2 + h.rng.IntN(20)
			l.Period = l.Period.Truncate(time.Duration(l.Buckets) * time.Microsecond)
		case headgate.FixedWindow:
			l.Staggered = h.rng.IntN(2) == 0
		case headgate.TokenBucket, headgate.LeakyBucket, headgate.GCRA:
			if h.rng.IntN(2) == 0 {
				l.Burst = h.drawNumber(headgate.MaxCount)
			}
		}
		if l.Validate() == nil {
			return l
		}
	}
}

func span(l headgate.Limit) time.Duration { return max(l.Period, l.TTL) }

// step advances the time and makes one call on both sides.
func (h *history) step() error {
	i := h.rng.IntN(len(h.limits))
	l := h.limits[i]
	switch h.rng.IntN(10) {
	case 0:
	case 1: // back
		h.now = h.now.Add(-time.Duration(h.rng.Int64N(int64(span(l)/time.Microsecond)+1)) * time.Microsecond)
	default:
		most := int64(2 * span(l) / time.Microsecond)
		h.now = h.now.Add(time.Duration(h.rng.Int64N(most+1)>>h.rng.IntN(30)) * time.Microsecond)
	}
	if h.now.UnixMicro() < 1_000_000_000_000_000 || h.now.UnixMicro() > 4_000_000_000_000_000 {
		h.now = time.Unix(1_800_000_000, 0)
	}
	c := h.check(i)
	ctx := context.Background()
	switch h.rng.IntN(12) {
	case 0:
		return h.give(ctx)
	case 1:
		c.Cost = h.drawNumber(min(2*l.Capacity(), headgate.MaxCount))
		got, err := h.redis.Charge(ctx, c)
		want, wantErr := h.steps.Charge(ctx, c)
		return h.compare("charge", c, got, want, err, wantErr)
	case 2:
		got, err := h.redis.Peek(ctx, c)
		want, wantErr := h.steps.Peek(ctx, c)
		return h.compare("peek", c, got, want, err, wantErr)
	case 3:
		if h.rng.IntN(5) == 0 {
			if err := h.redis.Reset(ctx, c); err != nil {
				return err
			}
			return h.steps.Reset(ctx, c)
		}
		fallthrough
	case 4, 5:
		return h.takeAll(ctx)
	case 6:
		if h.rng.IntN(8) == 0 {
			h.limits[i] = h.drawLimit()
			c = h.check(i)
		}
	}
	got, err := h.redis.Take(ctx, c)
	want, wantErr := h.steps.Take(ctx, c)
	if err := h.compare("take", c, got, want, err, wantErr); err != nil {
		return err
	}
	h.keep(c, got, want)
	return nil
}

func (h *history) check(i int) headgate.Check {
	l := h.limits[i]
	n := int64(1)
	switch h.rng.IntN(4) {
	case 0:
		n = h.drawNumber(l.Capacity())
	case 1:
		n = l.Capacity()
	}
	return headgate.Check{Owner: h.owner, Key: fmt.Sprint(h.owner, "/", i), Limit: l, Cost: n}
}

func (h *history) takeAll(ctx context.Context) error {
	var checks []headgate.Check
	for i := range h.limits {
		checks = append(checks, h.check(i))
	}
	if h.rng.IntN(6) == 0 {
		checks[len(checks)-1].Cost = checks[len(checks)-1].Limit.Capacity() + 1
	}
	got, err := h.redis.TakeAll(ctx, checks, nil)
	want, wantErr := h.steps.TakeAll(ctx, checks, nil)
	if err != nil || wantErr != nil || len(got) != len(want) {
		return fmt.Errorf("take all: got %v, %w; want %v, %w", got, err, want, wantErr)
	}
	for i, c := range checks {
		if err := h.compare(fmt.Sprintf("take all %d of %d", i+1, len(checks)), c, got[i], want[i], nil, nil); err != nil {
			return err
		}
		h.keep(c, got[i], want[i])
	}
	return nil
}

func (h *history) keep(c headgate.Check, got, want headgate.Decision) {
	if got.Receipt.Units > 0 {
		h.receipts = append(h.receipts, receipts{c, got.Receipt, want.Receipt})
	}
}

func (h *history) give(ctx context.Context) error {
	if len(h.receipts) == 0 {
		return nil
	}
	i := h.rng.IntN(len(h.receipts))
	r := h.receipts[i]
	r.check.Cost = h.drawNumber(r.redis.Units)
	if h.rng.IntN(4) > 0 {
		h.receipts = append(h.receipts[:i], h.receipts[i+1:]...)
	}
	if err := h.redis.Give(ctx, r.check, r.redis); err != nil {
		return err
	}
	return h.steps.Give(ctx, r.check, r.steps)
}

func (h *history) compare(what string, c headgate.Check, got, want headgate.Decision, err, wantErr error) error {
	got.Receipt.Lease, want.Receipt.Lease = 0, 0
	if got != want || !errors.Is(err, wantErr) {
		return fmt.Errorf("at %d %s %d of %q:\n got %+v, %w\nwant %+v, %w", h.now.UnixMicro(), what, c.Cost, c.Limit, got, err, want, wantErr)
	}
	return nil
}
