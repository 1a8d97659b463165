package respite

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

var kept [][]byte

// collections returns how often memory is collected while so much of it is taken.
func collections(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range bytes >> 16 {
		kept = append(kept, make([]byte, 1<<16))
	}
	runtime.ReadMemStats(&after)
	kept = nil
	return after.NumGC - before.NumGC
}

func percent() int {
	now, _ := percents(0)
	return now
}

// restored waits for the percentage that was set before.
func restored(t *testing.T, want int) {
	t.Helper()
	runtime.GC()
	await.True(t, "the percentage that was set", func() bool { return percent() == want })
}

func TestNothingIsCollectedUntilItEnds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, alive := range []int{0, 32 << 20} {
		held := make([]byte, alive)
		runtime.GC()
		if n := collections(48 << 20); n == 0 {
			t.Fatal("nothing is collected anyway")
		}
		runtime.GC()
		end := Take(512 << 20)
		if n := collections(48 << 20); n != 0 {
			t.Errorf("with %d bytes alive: collected %d times", alive, n)
		}
		end()
		end()
		if n := collections(64 << 20); n == 0 {
			t.Errorf("with %d bytes alive: not collected soon after the end", alive)
		}
		restored(t, 100)
		end = Take(32 << 20)
		if n := collections(128 << 20); n == 0 {
			t.Errorf("with %d bytes alive: not collected after more than was asked for", alive)
		}
		end()
		restored(t, 100)
		runtime.KeepAlive(held)
	}
}

func TestOneAtATime(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	first := Take(64 << 20)
	raised := percent()
	second := Take(128 << 20)
	if got := percent(); got != raised || raised <= 100 {
		t.Errorf("got %d percent, and %d for a second one", raised, got)
	}
	second()
	if got := percent(); got != raised {
		t.Errorf("got %d percent after the second has ended, want %d", got, raised)
	}
	first()
	third := Take(128 << 20) // the collector has not come yet
	runtime.GC()
	if got := percent(); got <= raised {
		t.Errorf("got %d percent for one after another, want more than %d", got, raised)
	}
	third()
	restored(t, 100)
}

func TestWhatIsMoreAlreadyStays(t *testing.T) {
	for _, set := range []int{100_000, -1} {
		before := debug.SetGCPercent(set)
		end := Take(1 << 20)
		if got := debug.SetGCPercent(set); got != set {
			t.Errorf("got %d percent, want %d", got, set)
		}
		end()
		if got := debug.SetGCPercent(before); got != set {
			t.Errorf("got %d percent after the end, want %d", got, set)
		}
	}
}
