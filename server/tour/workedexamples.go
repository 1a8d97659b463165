package tour

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/internal/terminal"
)

// A virtualClock is a clock whose time is set by the tour. Stores read it from their own goroutines too.
type virtualClock struct{ sinceMidnight atomic.Int64 }

var midnight = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (c *virtualClock) now() time.Time { return midnight.Add(time.Duration(c.sinceMidnight.Load())) }

func (c *virtualClock) set(sinceMidnight time.Duration) { c.sinceMidnight.Store(int64(sinceMidnight)) }

func (c *virtualClock) newStore() (*memstore.Store, error) {
	return memstore.New(memstore.Options{Now: c.now})
}

// showWorkedExamples is the third scene: the worked examples of the documentation, decided by a real store in virtual
// time.
func (d *demo) showWorkedExamples(ctx context.Context) error {
	d.Title("3  Worked examples")
	for _, example := range []func(context.Context) ([]string, error){d.bucketOfTen, d.threeHosts, d.windowBorder} {
		lines, err := example(ctx)
		if err != nil {
			return err
		}
		for _, line := range lines {
			d.Line(line)
		}
	}
	return nil
}

// level returns a bar that is filled for n of most units.
func (d *demo) level(n, most int64) string {
	const width = 20
	return d.Paint(terminal.Green, terminal.Bar(float64(n)/float64(most), width)) + fmt.Sprintf(" %2d of %d", n, most)
}

// bucketOfTen takes 6 and 5 units from a bucket of 10 that refills in a second.
func (d *demo) bucketOfTen(ctx context.Context) ([]string, error) {
	var clock virtualClock
	store, err := clock.newStore()
	if err != nil {
		return nil, err
	}
	defer closeStore(store)
	limit := headgate.MustParseLimit("10/s")
	lines := []string{"  A bucket of 10 that refills at 10/s:"}
	for _, step := range []struct {
		at   time.Duration
		cost int64 // 0: take nothing
	}{
		{0, 0},
		{300 * time.Millisecond, 6},
		{500 * time.Millisecond, 0},
		{500 * time.Millisecond, 5},
		{1400 * time.Millisecond, 0},
	} {
		clock.set(step.at)
		check := headgate.Check{Key: "alice", Limit: limit, Cost: step.cost}
		decide, what := store.Take, fmt.Sprintf("take %d", step.cost)
		if step.cost == 0 {
			decide, what = store.Peek, "look"
		}
		got, err := decide(ctx, check)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("    at %4d ms  %-7s %s", step.at.Milliseconds(), what, d.level(got.Remaining, got.Limit)))
	}
	return append(lines, ""), nil
}

// hosts are the names of the hosts that share a limit.
var hosts = []string{"A", "B", "C"}

// threeHosts shows the mode async: three hosts decide by their own counters, and charge each other afterwards. If more
// units have passed than the limit allows, the hosts are in debt.
func (d *demo) threeHosts(ctx context.Context) ([]string, error) {
	lines := []string{"  Three hosts share 4/s; each decides alone, then they charge each other:"}
	for _, taken := range [][]int64{{1, 2, 1}, {4, 4, 4}} {
		remaining, closed, err := shareAmong(ctx, taken)
		if err != nil {
			return nil, err
		}
		line := "    take"
		for i, n := range taken {
			line += fmt.Sprintf("  %s %d", hosts[i], n)
		}
		line += "   after the exchange"
		for i, n := range remaining {
			line += fmt.Sprintf("  %s %2d", hosts[i], n)
		}
		if remaining[0] < 0 {
			line += d.Paint(terminal.Amber, fmt.Sprintf("  closed for %v", closed))
		}
		lines = append(lines, line)
	}
	return append(lines, ""), nil
}

// shareAmong lets each host take units of 4/s at the same moment, and charges the units to the other hosts. It returns
// the remaining units of each host, and the time until the first host admits requests again.
func shareAmong(ctx context.Context, taken []int64) (remaining []int64, closed time.Duration, err error) {
	var clock virtualClock
	limit := headgate.MustParseLimit("4/s")
	stores := make([]*memstore.Store, len(taken))
	for i, n := range taken {
		if stores[i], err = clock.newStore(); err != nil {
			return nil, 0, err
		}
		defer closeStore(stores[i])
		got, err := stores[i].Take(ctx, headgate.Check{Key: "shared", Limit: limit, Cost: n})
		if err != nil {
			return nil, 0, err
		}
		if !got.Allowed {
			return nil, 0, fmt.Errorf("host %s is denied %d of %v", hosts[i], n, limit)
		}
	}
	for i, store := range stores {
		for j, n := range taken {
			if i == j {
				continue
			}
			if _, err := store.Charge(ctx, headgate.Check{Key: "shared", Limit: limit, Cost: n}); err != nil {
				return nil, 0, err
			}
		}
		got, err := store.Peek(ctx, headgate.Check{Key: "shared", Limit: limit})
		if err != nil {
			return nil, 0, err
		}
		remaining = append(remaining, got.Remaining)
		if i == 0 {
			closed = got.RetryAfter
		}
	}
	return remaining, closed, nil
}

// windowBorder sends requests just before and just after the border of two windows, and shows how many three
// algorithms allow.
func (d *demo) windowBorder(ctx context.Context) ([]string, error) {
	lines := []string{"  20 requests 50 ms before a full second and 20 just after it, of 10/s:"}
	for _, algorithm := range []headgate.Algorithm{headgate.FixedWindow, headgate.SlidingWindow, headgate.SlidingLog} {
		before, after, err := aroundBorder(ctx, algorithm)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%2d + %2d = %2d within 51 ms", before, after, before+after)
		if before+after > 10 {
			text = d.Paint(terminal.Amber, text)
		}
		lines = append(lines, fmt.Sprintf("    %-15s %s", algorithm, text))
	}
	return lines, nil
}

// aroundBorder returns how many of 20 requests pass 50 ms before the border of a window of 10/s, and how many of 20
// just after it.
func aroundBorder(ctx context.Context, algorithm headgate.Algorithm) (before, after int, err error) {
	var clock virtualClock
	store, err := clock.newStore()
	if err != nil {
		return 0, 0, err
	}
	defer closeStore(store)
	check := headgate.Check{Key: "alice", Limit: headgate.Limit{Algorithm: algorithm, Count: 10, Period: time.Second}, Cost: 1}
	for _, burst := range []struct {
		at     time.Duration
		passed *int
	}{{950 * time.Millisecond, &before}, {1001 * time.Millisecond, &after}} {
		clock.set(burst.at)
		for range 20 {
			got, err := store.Take(ctx, check)
			if err != nil {
				return 0, 0, err
			}
			if got.Allowed {
				*burst.passed++
			}
		}
	}
	return before, after, nil
}
