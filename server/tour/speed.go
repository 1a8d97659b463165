package tour

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/internal/terminal"
)

// showSpeed is the fourth scene: decisions per second.
func (d *demo) showSpeed(ctx context.Context) error {
	d.Title("4  Decisions")
	if d.Live {
		d.Draw([]string{d.Paint(terminal.Dim, "  measuring …")})
	}
	s, err := measure(ctx, d.keys, d.measure)
	if err != nil {
		return err
	}
	result := fmt.Sprintf("  %s decisions/s on %d cores, over %s keys, %.0f bytes a key",
		d.Paint(terminal.Bold, millions(s.perSecond)), s.cores, grouped(int64(d.keys)), s.bytesPerKey)
	if d.Live {
		d.Draw([]string{result})
	} else {
		d.Line(result)
	}
	return nil
}

// A speed is the result of measure.
type speed struct {
	perSecond   float64
	cores       int
	bytesPerKey float64
}

// measure counts the decisions that all cores make in the given time. It creates all keys before that time begins.
func measure(ctx context.Context, keys int, duration time.Duration) (speed, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return speed{}, err
	}
	defer closeStore(store)
	limit, err := store.Bind(headgate.PerHour(100))
	if err != nil {
		return speed{}, err
	}
	names := make([]string, keys)
	for i := range names {
		if i%1024 == 0 && ctx.Err() != nil {
			return speed{}, ctx.Err()
		}
		names[i] = "client-" + strconv.Itoa(i)
		limit.Allow(names[i])
	}
	s := speed{cores: runtime.GOMAXPROCS(0)}
	var decisions atomic.Int64
	var workers sync.WaitGroup
	start := time.Now()
	for i := range s.cores {
		workers.Go(func() { decisions.Add(decide(ctx, limit, names, i*keys/s.cores, start.Add(duration))) })
	}
	workers.Wait()
	s.perSecond = float64(decisions.Load()) / time.Since(start).Seconds()
	stats := store.Stats()
	s.bytesPerKey = float64(stats.Bytes) / float64(stats.Keys)
	return s, ctx.Err()
}

// decide makes decisions about one name after the other, beginning at index from, until the given time. It returns the
// number of decisions. It makes at least one batch, even if it starts late because the machine is busy. It uses the
// names in the order of their memory, because the key of a real request is in the CPU cache too. The positions of the
// keys in the store are random in any case.
func decide(ctx context.Context, limit *headgate.Bound, names []string, from int, until time.Time) (n int64) {
	const batch = 1000
	for n == 0 || time.Now().Before(until) && ctx.Err() == nil {
		for range batch {
			limit.Allow(names[from])
			if from++; from == len(names) {
				from = 0
			}
		}
		n += batch
	}
	return n
}

// millions formats a number in millions with a suitable number of digits.
func millions(n float64) string {
	if n >= 10e6 {
		return fmt.Sprintf("%.0f million", n/1e6)
	}
	return fmt.Sprintf("%.1f million", n/1e6)
}
