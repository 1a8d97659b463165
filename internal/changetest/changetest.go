// Package changetest compares a headgate.Limiter with package oracle while the limits of its keys change at random
// times.
package changetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/oracle"
	"github.com/headgate/headgate/limittest"
)

// A History is a random sequence of operations on one key of a limiter and on its oracle. Create one with New.
type History struct {
	rng     *rand.Rand
	limiter headgate.Limiter
	clock   *limittest.Clock
	options Options

	key   string
	limit headgate.Limit
	// written is the limit of the latest take or charge that could change the state. Concurrency limits are ignored.
	written headgate.Limit
	// least and most are oracles of the least and the most units that the key can have consumed. They are the same oracle,
	// unless the limiter rounds times.
	least, most *oracle.Oracle
	rounded     bool // times were rounded under an earlier limit, and units consumed under it may still count
	taken       []takenUnits
	log         []string
	seen        Seen
}

// Options configure the comparison.
type Options struct {
	// Accept reports whether a limit may be drawn. Default: all.
	Accept func(headgate.Limit) bool
	// Rounding returns the largest number of microseconds by which the limiter rounds up the time of the latest decision
	// under a limit. Default: 0.
	Rounding func(headgate.Limit) int64
}

// Seen counts the events of histories.
type Seen struct {
	Steps, Changes, Denied, Allowed, Rounded int
	InDebt                                   int // denials of keys in debt
}

// Add adds the counts of other histories.
func (s *Seen) Add(other Seen) {
	s.Steps += other.Steps
	s.Changes += other.Changes
	s.Denied += other.Denied
	s.Allowed += other.Allowed
	s.Rounded += other.Rounded
	s.InDebt += other.InDebt
}

// A takenUnits is the units taken by one decision.
type takenUnits struct {
	check         headgate.Check
	receipt       headgate.Receipt // of the limiter
	oracleReceipt headgate.Receipt // of the oracle
}

// New begins a history of a key that is new to the limiter. The limiter must use the given clock.
func New(limiter headgate.Limiter, clock *limittest.Clock, key string, rng *rand.Rand, o Options) *History {
	h := &History{rng: rng, limiter: limiter, clock: clock, options: o, key: key}
	h.limit = h.draw()
	h.written = h.limit
	clock.Advance(time.Duration(rng.Int64N(int64(10*24*time.Hour/time.Microsecond))) * time.Microsecond)
	h.least = oracle.NewFor(key, h.limit)
	h.most = h.least
	if o.Rounding != nil {
		h.most = oracle.NewFor(key, h.limit)
		h.least.Rounding, h.most.Rounding, h.most.KeepMost = o.Rounding, o.Rounding, true
	}
	return h
}

// Seen returns the counts so far.
func (h *History) Seen() Seen { return h.seen }

// Run replays histories of 40 steps each until they have taken the given number of steps together.
func Run(ctx context.Context, steps int, newHistory func(run uint64) *History) (seen Seen, err error) {
	for run := uint64(0); seen.Steps < steps; run++ {
		h := newHistory(run)
		for range 40 {
			if err := h.Step(ctx); err != nil {
				return seen, fmt.Errorf("history %d: %w", run, err)
			}
		}
		seen.Add(h.Seen())
	}
	return seen, nil
}

// CheckVariety returns an error if the histories prove too little, because too few steps changed a limit, were
// denied, were denied in debt or were allowed.
func (s *Seen) CheckVariety() error {
	if minimum := max(1, s.Steps/10); s.Changes < minimum || s.Denied < minimum || s.Allowed < minimum {
		return fmt.Errorf("%+v: want at least %d changes, denials and allowed takes", *s, minimum)
	}
	if minimum := max(1, s.Steps/20); s.InDebt < minimum {
		return fmt.Errorf("%+v: want at least %d denials in debt", *s, minimum)
	}
	return nil
}

// Step lets time pass, sometimes changes the limit, and executes one operation. If the limiter and the oracle differ,
// the error lists the whole history.
func (h *History) Step(ctx context.Context) error {
	h.seen.Steps++
	h.clock.Advance(h.pause())
	if h.rng.IntN(5) == 0 {
		h.change()
	}
	var err error
	switch op := h.rng.IntN(20); {
	case op < 3:
		err = h.take(ctx, 0)
	case op < 5 && h.limit.Algorithm != headgate.Concurrency:
		err = h.charge(ctx)
	case op < 8 && len(h.taken) > 0:
		err = h.give(ctx)
	default:
		err = h.take(ctx, h.cost())
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(h.log, "\n"))
	}
	return nil
}

func (h *History) micros() int64 { return h.clock.Now().UnixMicro() }

func (h *History) logf(format string, args ...any) {
	h.log = append(h.log, h.clock.Now().UTC().Format("01-02 15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

// change changes one property of the key's limit, or the whole limit.
func (h *History) change() {
	l := h.limit
	switch h.rng.IntN(6) {
	case 0:
		l.Count = max(1, l.Count/2)
	case 1:
		l.Count *= 2
	case 2:
		l.Period = h.draw().Period
	case 3:
		l.Staggered = !l.Staggered
	case 4:
		l.Burst = h.draw().Burst
	default:
		l = h.draw()
	}
	if !h.accepts(l) {
		l = h.draw()
	}
	if h.options.Rounding != nil {
		h.rounded = h.rounded || h.options.Rounding(h.written) > 0
	}
	h.limit = l
	h.logf("limit %s", l)
	h.seen.Changes++
	h.least.Change(l)
	h.most.Change(l)
}

func (h *History) accepts(l headgate.Limit) bool {
	return l.Validate() == nil && (h.options.Accept == nil || h.options.Accept(l))
}

// draw returns a random limit that is accepted.
func (h *History) draw() headgate.Limit {
	for {
		if l := drawLimit(h.rng); h.accepts(l) {
			return l
		}
	}
}

// pause returns a random time between two steps. Steps then find limits empty, full and close to their boundaries.
func (h *History) pause() time.Duration {
	span := max(h.limit.Period, h.limit.TTL, time.Microsecond)
	upTo := func(limit time.Duration) time.Duration {
		return time.Duration(h.rng.Int64N(int64(limit/time.Microsecond)+1)) * time.Microsecond
	}
	switch h.rng.IntN(12) {
	case 0, 1, 2:
		return 0
	case 3:
		return time.Microsecond
	case 4, 5, 6:
		return upTo(2 * max(time.Microsecond, span/time.Duration(h.limit.Count)))
	case 7, 8:
		return upTo(span / 4)
	case 9:
		return upTo(span >> h.rng.IntN(20))
	case 10:
		return span + upTo(2*time.Microsecond) - time.Microsecond
	default:
		return upTo(3 * span)
	}
}

// cost returns a random cost: often 1, sometimes the capacity or more.
func (h *History) cost() int64 {
	capacity := h.limit.Capacity()
	switch h.rng.IntN(8) {
	case 0, 1, 2:
		return 1
	case 3, 4:
		return 1 + h.rng.Int64N(capacity/4+1)
	case 5:
		return 1 + h.rng.Int64N(capacity)
	case 6:
		return capacity
	default:
		return capacity + 1
	}
}

func (h *History) check(n int64) headgate.Check {
	return headgate.Check{Key: h.key, Limit: h.limit, Cost: n}
}

// recordWrite records that a step stores a state under the current limit. If no units consumed earlier still count, it
// no longer matters that their times were rounded.
func (h *History) recordWrite() {
	if h.limit.Algorithm == headgate.Concurrency {
		return
	}
	h.written = h.limit
	now := h.micros()
	if h.least.Take(now, 0, 0).ResetAfter == 0 && h.most.Take(now, 0, 0).ResetAfter == 0 {
		h.rounded = false
	}
}

func (h *History) take(ctx context.Context, n int64) error {
	h.logf("take %d", n)
	if n > 0 && n <= h.limit.Capacity() {
		h.recordWrite()
	}
	decide := h.limiter.Take
	if n == 0 {
		decide = h.limiter.Peek
	}
	d, err := decide(ctx, h.check(n))
	if err != nil {
		return err
	}
	if d.Allowed {
		h.seen.Allowed++
	} else {
		h.seen.Denied++
		if n > 0 && d.Remaining < 0 {
			h.seen.InDebt++
		}
	}
	if h.rounded {
		return h.compareBounds(d, n)
	}
	want := h.least.Take(h.micros(), n, d.Receipt.Lease)
	if h.most != h.least {
		h.most.Take(h.micros(), n, d.Receipt.Lease)
	}
	h.recordTaken(h.check(n), d.Receipt, want.Receipt)
	return h.compare(d, want)
}

// compareBounds compares a decision with two oracles that disagree on the consumption.
func (h *History) compareBounds(d headgate.Decision, n int64) error {
	h.seen.Rounded++
	now := h.micros()
	neverPasses := n > h.limit.Capacity()
	mayPass, mustPass := h.least.Fits(now, n), h.most.Fits(now, n)
	if d.Allowed && !mayPass || !d.Allowed && mustPass {
		return fmt.Errorf("got %+v, which may pass: %v, and must pass: %v", d, mayPass, mustPass)
	}
	if d.Allowed && n > 0 {
		h.least.Force(now, n)
		h.most.Force(now, n)
	} else if n > 0 && !neverPasses {
		h.least.Deny(now)
		h.most.Deny(now)
	}
	least, most := h.least.Take(now, 0, 0), h.most.Take(now, 0, 0)
	if d.Remaining > least.Remaining || d.Remaining < most.Remaining {
		return fmt.Errorf("got %+v, want %d to %d remaining", d, most.Remaining, least.Remaining)
	}
	return nil
}

func (h *History) charge(ctx context.Context) error {
	n := h.cost()
	if h.rng.IntN(3) == 0 {
		n *= 1 + h.rng.Int64N(headgate.MaxDebt) // into a deep debt
	}
	n = min(n, headgate.MaxCount)
	h.logf("charge %d", n)
	h.recordWrite()
	c := h.check(n)
	d, err := h.limiter.Charge(ctx, c)
	if err != nil {
		return err
	}
	if h.rounded {
		h.least.Force(h.micros(), d.Receipt.Units)
		h.most.Force(h.micros(), d.Receipt.Units)
		return nil
	}
	want := h.least.Charge(h.micros(), n)
	if h.most != h.least {
		h.most.Charge(h.micros(), n)
	}
	h.recordTaken(c, d.Receipt, want.Receipt)
	return h.compare(d, want)
}

// give returns units that were taken, under any earlier limit.
func (h *History) give(ctx context.Context) error {
	i := h.rng.IntN(len(h.taken))
	units := h.taken[i]
	h.taken = append(h.taken[:i], h.taken[i+1:]...)
	if h.rounded {
		return nil // the result depends on the exact consumption
	}
	units.check.Cost = 1 + h.rng.Int64N(units.receipt.Units)
	c, r := &units.check, &units.receipt
	h.logf("give %d of %d taken under %s at %d", c.Cost, r.Units, c.Limit, r.At)
	if err := h.limiter.Give(ctx, units.check, units.receipt); err != nil {
		return err
	}
	h.least.Give(h.micros(), units.check.Cost, units.check.Limit, units.oracleReceipt)
	if h.most != h.least {
		h.most.Give(h.micros(), units.check.Cost, units.check.Limit, units.oracleReceipt)
	}
	return h.take(ctx, 0)
}

// recordTaken records units that a later step may give back.
func (h *History) recordTaken(c headgate.Check, receipt, oracleReceipt headgate.Receipt) {
	if receipt.Units > 0 {
		h.taken = append(h.taken, takenUnits{c, receipt, oracleReceipt})
	}
}

func (h *History) compare(got, want headgate.Decision) error {
	for _, d := range []*time.Duration{&got.ResetAfter, &want.ResetAfter, &got.RetryAfter, &want.RetryAfter} {
		if *d > maxComparedTime {
			*d = maxComparedTime
		}
	}
	if got != want {
		return fmt.Errorf("under %s at %d\ngot  %+v\nwant %+v", h.limit, h.micros(), got, want)
	}
	return nil
}

// maxComparedTime is a time beyond which exact values are not compared: Lua and Go count times up to 2^53 µs.
const maxComparedTime = 1 << 52 * time.Microsecond

// drawLimit returns a random realistic limit. Most counts do not divide their periods. It may be invalid.
func drawLimit(rng *rand.Rand) headgate.Limit {
	oneOf := func(n ...int64) int64 { return n[rng.IntN(len(n))] }
	for {
		l := headgate.Limit{
			Algorithm: headgate.Algorithm(rng.IntN(len(headgate.Algorithms()))),
			Count:     oneOf(1, 2, 3, 5, 7, 10, 20, 60, 77, 100, 300, 777, 1000, 1001, 33333),
			Period: []time.Duration{
				time.Second, time.Minute, time.Hour, 24 * time.Hour, 700 * time.Millisecond,
				7 * 24 * time.Hour,
			}[rng.IntN(6)],
		}
		switch l.Algorithm {
		case headgate.TokenBucket, headgate.LeakyBucket, headgate.GCRA:
			l.Burst = oneOf(0, 1, 10, 100, 1000)
		case headgate.FixedWindow:
			l.Staggered = rng.IntN(2) == 0
		case headgate.SlidingBuckets:
			l.Buckets = int(oneOf(0, 2, 7, 12, 60))
		case headgate.SlidingLog:
			l.Count = oneOf(1, 2, 3, 5, 7, 10, 20, 60)
		case headgate.Concurrency:
			if rng.IntN(3) > 0 {
				continue
			}
			l.Count, l.Period, l.TTL = oneOf(1, 2, 5, 10), 0, l.Period
		}
		return l
	}
}
