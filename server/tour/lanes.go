package tour

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// slot is the duration of one column of a timeline, and slots is the number of columns.
const (
	slot  = 50 * time.Millisecond
	slots = 48
)

// arrives reports whether the client of the second scene sends a request in slot n: around the boundary of two
// windows, and again after a pause.
func arrives(n int) bool { return n >= 15 && n < 29 || n >= 33 && n < 46 }

// holdTime is the time for which a request of the concurrency lane keeps its slot.
const holdTime = 300 * time.Millisecond

// A lane shows what one algorithm decides about the arrivals.
type lane struct {
	name       string
	limit      headgate.Limit
	allowedAt  []time.Duration // arrival times of allowed requests
	releasedAt []time.Duration // times at which a leaky bucket releases them
	asked      [slots]bool
	holds      []hold
}

// A hold is a slot of a concurrency limit that is held until a time.
type hold struct {
	until   time.Duration
	receipt headgate.Receipt
}

func lanes() []*lane {
	var all []*lane
	for _, limit := range []string{
		"5/s", "5/s gcra", "5/s leaky-bucket", "5/s fixed-window", "5/s sliding-log", "5/s sliding-window",
		"5/s sliding-buckets", "5 concurrent",
	} {
		l := headgate.MustParseLimit(limit)
		all = append(all, &lane{name: l.Algorithm.String(), limit: l})
	}
	return all
}

// runLanes sends the arrivals through every lane, in virtual time.
func runLanes(ctx context.Context) ([]*lane, error) {
	var clock virtualClock
	store, err := clock.newStore()
	if err != nil {
		return nil, err
	}
	defer closeStore(store)
	all := lanes()
	for n := range slots {
		now := time.Duration(n) * slot
		clock.set(now)
		for _, l := range all {
			if err := l.step(ctx, store, n, now); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// step returns the concurrency slots of finished requests. Then it sends a request if one arrives in column n.
func (l *lane) step(ctx context.Context, limiter headgate.Limiter, n int, now time.Duration) error {
	check := headgate.Check{Key: l.name, Limit: l.limit, Cost: 1}
	for len(l.holds) > 0 && l.holds[0].until <= now {
		if err := limiter.Give(ctx, check, l.holds[0].receipt); err != nil {
			return err
		}
		l.holds = l.holds[1:]
	}
	if !arrives(n) {
		return nil
	}
	l.asked[n] = true
	d, err := limiter.Take(ctx, check)
	if err != nil || !d.Allowed {
		return err
	}
	l.allowedAt = append(l.allowedAt, now)
	switch l.limit.Algorithm {
	case headgate.LeakyBucket:
		l.releasedAt = append(l.releasedAt, now+d.Delay)
	case headgate.Concurrency:
		l.holds = append(l.holds, hold{now + holdTime, d.Receipt})
	}
	return nil
}

// maxWithin returns the maximum number of times that are within a window of the given length.
func maxWithin(times []time.Duration, window time.Duration) int {
	best := 0
	for i, from := range times {
		n := 0
		for _, t := range times[i:] {
			if t < from+window {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}
