//go:build !race

// Calibration measures speed and a million keys, which the race detector would distort.

package plan

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/loadgen/target"
)

func TestCalibrationReplacesTheConstants(t *testing.T) {
	c := Defaults(1e6)
	if err := MeasureCounters(t.Context(), &c, 1e6); err != nil {
		t.Fatal(err)
	}
	if c.NodeBytes.Value < 16 || c.NodeBytes.Value > 40 || !strings.HasPrefix(c.NodeBytes.Source, measured) {
		t.Errorf("got %+v, want 16 to 40 measured bytes", c.NodeBytes)
	}
	memory, err := target.Open(t.Context(), target.Options{Address: target.Memory, Limit: headgate.PerSecond(1000)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	targets := NodeTargets{One: memory, Several: memory, Limits: 2}
	if err := c.InRedis.Measure(t.Context(), targets, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if c.InRedis.Decisions.Value < 100 || c.InRedis.Decisions.Value == Defaults(1e6).InRedis.Decisions.Value {
		t.Errorf("got %+v, want measured decisions", c.InRedis.Decisions)
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := MeasureShard(t.Context(), &c, memory, store, 2, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Constant{c.InRedis.LimitWork, c.ShardCalls, c.RoundTrip, c.LimitWork} {
		if !strings.HasPrefix(m.Source, measured) {
			t.Errorf("got %+v, want it measured", m)
		}
	}
}

// A stallingTarget answers after a millisecond, but much later for a time, as on a machine that does something else.
type stallingTarget struct {
	target.Target
	began time.Time
}

func (t *stallingTarget) Take(context.Context, string) (target.Outcome, error) {
	wait := time.Millisecond
	if ran := time.Since(t.began); ran > 2*time.Second && ran < 3*time.Second {
		wait *= 50
	}
	time.Sleep(wait)
	return target.Outcome{}, nil
}

func TestThroughputIsTheUsualOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := saturate(t.Context(), &stallingTarget{began: time.Now()}, 5*time.Second)
		if want := 1000.0 * senders; err != nil || got < 0.99*want || got > want {
			t.Errorf("got %.0f/s, error %v, want %.0f/s as if nothing stalled", got, err, want)
		}
	})
}

// The ledger of package async says what else a counter needs for each peer.
func TestMemoryOfSharedCounters(t *testing.T) {
	store, err := async.NewLocal(fleet.LedgerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const keys = 200_000
	for i := range keys {
		check := headgate.Check{Key: strconv.Itoa(i), Limit: headgate.PerHour(100), Cost: 1}
		if _, err := store.Take(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	got := float64(after.HeapAlloc-before.HeapAlloc) / keys
	if want := Defaults(1).LedgerBytes.Value; math.Abs(got/want-1) > 0.25 {
		t.Errorf("got %.0f bytes per counter, want about %.0f", got, want)
	}
}

func TestMemoryIsThatOfAsManyCounters(t *testing.T) {
	t.Parallel()
	for _, counters := range []int{1_040_000, 1_200_000, 1_600_000, 1_800_000} { // tables have grown, are full, and grow
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		limit, err := store.Bind(headgate.PerHour(100))
		if err != nil {
			t.Fatal(err)
		}
		for i := range counters {
			limit.Allow(strconv.Itoa(i))
		}
		stats := store.Stats()
		want := float64(stats.Bytes) / float64(stats.Keys)
		var c Constants
		if err := MeasureCounters(t.Context(), &c, float64(counters)); err != nil {
			t.Fatal(err)
		}
		// While tables grow, the old and the new one exist for a time that depends on when goroutines run.
		if got := c.NodeBytes.Value; got < 0.75*want || got > 1.25*want {
			t.Errorf("%d counters: got %.1f bytes, want about %.1f", counters, got, want)
		}
		if got := Defaults(float64(counters)).NodeBytes.Value; got < 0.75*want || got > 1.25*want {
			t.Errorf("%d counters: got a default of %.1f bytes, want about %.1f", counters, got, want)
		}
	}
}
