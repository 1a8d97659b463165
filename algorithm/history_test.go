package algorithm_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/oracle"
)

// A source is where choices come from: chance, or the bytes of a fuzzer.
type source interface {
	// upTo chooses from 0 to most.
	upTo(most int64) int64
	// more reports whether there is another step.
	more() bool
}

type chance struct {
	*rand.Rand
	steps int
}

func (c *chance) upTo(most int64) int64 { return c.Int64N(most + 1) }

func (c *chance) more() bool {
	c.steps--
	return c.steps >= 0
}

type tape []byte

func (t *tape) more() bool { return len(*t) > 0 }

func (t *tape) upTo(most int64) int64 {
	var n uint64
	for size := bits.Len64(uint64(most)); size > 0 && len(*t) > 0; size -= 8 {
		n = n<<8 | uint64((*t)[0])
		*t = (*t)[1:]
	}
	return int64(n % (uint64(most) + 1))
}

func oneOf[T any](from source, choices ...T) T { return choices[from.upTo(int64(len(choices)-1))] }

// A history is one key's, told to the steps and to the oracle.
type history struct {
	from   source
	limit  headgate.Limit
	plan   *algorithm.Plan
	state  algorithm.State
	oracle *oracle.Oracle
	now    int64
	latest int64 // time of the latest change
	leases uint64
	open   []headgate.Receipt
	denied int
	told   []event
}

// An event is a step as it is told when it went wrong.
type event struct {
	at      int64
	verb    string
	n       int64
	receipt headgate.Receipt
	limit   headgate.Limit
}

const start = 1767225600_000000 // 2026-01-01T00:00:00Z

func newHistory(from source, l headgate.Limit) (*history, error) {
	plan, err := algorithm.NewPlan(l)
	if err != nil {
		return nil, err
	}
	h := &history{from: from, limit: l, plan: plan, oracle: oracle.New(l), now: start}
	h.now += from.upTo(h.span())
	return h, nil
}

// span is the time in which the limit forgets, in µs.
func (h *history) span() int64 {
	if h.limit.Algorithm != headgate.Concurrency {
		return h.limit.Period.Microseconds()
	}
	if h.limit.TTL == 0 {
		return headgate.DefaultTTL.Microseconds()
	}
	return h.limit.TTL.Microseconds()
}

// pause draws a time until the next step, such that the limit is met empty, full, and at its borders.
func (h *history) pause() int64 {
	span := h.span()
	grain := span
	if h.limit.Algorithm == headgate.SlidingBuckets {
		grain /= max(2, int64(h.limit.Buckets))
	}
	switch h.from.upTo(11) {
	case 0, 1, 2:
		return 0
	case 3:
		return 1
	case 4, 5, 6:
		return h.from.upTo(2 * max(1, span/h.limit.Count))
	case 7, 8:
		return h.from.upTo(span / 4)
	case 9:
		return max(0, grain-h.now%grain+h.from.upTo(2)-1)
	case 10:
		return span + h.from.upTo(2) - 1
	default:
		return h.from.upTo(3 * span)
	}
}

func (h *history) cost() int64 {
	most := h.limit.Capacity()
	switch h.from.upTo(7) {
	case 0, 1, 2:
		return 1
	case 3, 4:
		return 1 + h.from.upTo(most/4)
	case 5:
		return 1 + h.from.upTo(most-1)
	case 6:
		return most
	default:
		return oneOf(h.from, most+1, headgate.MaxCount+1, 1<<63-1)
	}
}

// step does one thing to both and compares the decisions in every field.
func (h *history) step() error {
	h.now += h.pause()
	var got, want headgate.Decision
	op := h.from.upTo(19)
	switch {
	case op < 12:
		got, want = h.take(h.cost())
	case op < 14:
		got, want = h.take(0)
	case op < 16 && h.limit.Algorithm != headgate.Concurrency:
		n := min(h.cost(), headgate.MaxCount)
		h.tell(event{verb: "charge", n: n})
		h.state, got, _ = h.plan.Charge(h.state, h.now, n)
		want = h.oracle.Charge(h.now, n)
		h.keep(got)
	case op < 18 && len(h.open) > 0:
		i := int(h.from.upTo(int64(len(h.open) - 1)))
		r := h.open[i]
		n := 1 + h.from.upTo(r.Units-1)
		h.tell(event{verb: "give", n: n, receipt: r})
		h.state = h.plan.Give(h.state, h.now, n, r)
		h.oracle.Give(h.now, n, h.limit, r)
		h.open = append(h.open[:i], h.open[i+1:]...)
		got, want = h.take(0)
	default:
		h.change()
		got, want = h.take(0)
	}
	if got != want {
		return fmt.Errorf("%s\ngot  %+v\nwant %+v", h, got, want)
	}
	return nil
}

func (h *history) take(n int64) (got, want headgate.Decision) {
	h.tell(event{verb: "take", n: n})
	h.leases++
	h.state, got = h.plan.Take(h.state, h.now, n, h.leases)
	want = h.oracle.Take(h.now, n, h.leases)
	h.keep(got)
	if !got.Allowed && got.RetryAfter != headgate.Never {
		h.denied++
	}
	return got, want
}

func (h *history) keep(d headgate.Decision) {
	if d.Receipt.Units > 0 {
		h.open = append(h.open, d.Receipt)
	}
}

// change gives the limit another capacity, or what else may change without a doubt about what that means.
func (h *history) change() {
	l := h.limit
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		l.Algorithm = oneOf(h.from, headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket)
		l.Burst = oneOf(h.from, 1, l.Capacity(), l.Capacity()/2+1, 2*l.Capacity())
	case headgate.Concurrency:
		l.TTL = oneOf(h.from, l.TTL, time.Second, time.Minute)
		l.Count = oneOf(h.from, 1, l.Count, 2*l.Count)
	default:
		l.Count = oneOf(h.from, 1, l.Count, l.Count/2+1, 2*l.Count)
	}
	if plan, err := algorithm.NewPlan(l); err == nil { // else it is too large for a limit, and stays as it is
		h.tell(event{verb: "limit", limit: l})
		h.limit, h.plan = l, plan
		h.oracle.Change(l)
	}
}

func (h *history) tell(e event) {
	e.at = h.now
	h.told = append(h.told, e)
}

func (h *history) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "limit now %s", h.limit)
	for _, e := range h.told {
		fmt.Fprintf(&s, "\nat %d %s", e.at, e.verb)
		switch e.verb {
		case "limit":
			fmt.Fprintf(&s, " %s", e.limit)
		case "give":
			fmt.Fprintf(&s, " %d of %+v", e.n, e.receipt)
		default:
			fmt.Fprintf(&s, " %d", e.n)
		}
	}
	return s.String()
}

// agree follows a history to its end, and returns how often it was denied.
func agree(t *testing.T, from source, l headgate.Limit) (denied int) {
	t.Helper()
	h, err := newHistory(from, l)
	if err != nil {
		t.Fatal(err)
	}
	for from.more() {
		if err := h.step(); err != nil {
			t.Fatal(err)
		}
	}
	return h.denied
}

// stepBack lets the clock go back as well, and checks that the steps never admit what the oracle, who lives at the
// latest time at which something was taken, would not.
func (h *history) stepBack() error {
	pause := h.pause()
	if h.from.upTo(2) == 0 {
		pause = -pause
	}
	h.now += pause
	n := min(h.cost(), headgate.MaxCount)
	at := max(h.now, h.latest)
	if h.limit.Algorithm != headgate.Concurrency && h.from.upTo(9) == 0 {
		h.tell(event{verb: "charge", n: n})
		var d headgate.Decision
		h.state, d, _ = h.plan.Charge(h.state, h.now, n)
		h.latest = at
		h.oracle.Charge(at, d.Receipt.Units) // less than n if the debt is at its deepest by the older time
		return nil
	}
	h.tell(event{verb: "take", n: n})
	h.leases++
	fits := h.oracle.Fits(at, n)
	var d headgate.Decision
	if h.state, d = h.plan.Take(h.state, h.now, n, h.leases); !d.Allowed {
		return nil
	}
	if !fits {
		return fmt.Errorf("%s\nallowed, but not at %d, the latest time", h, at)
	}
	h.latest = at
	if want := h.oracle.Take(at, n, h.leases); d.Remaining > want.Remaining {
		return fmt.Errorf("%s\ngot %d remaining, want at most %d", h, d.Remaining, want.Remaining)
	}
	return nil
}
