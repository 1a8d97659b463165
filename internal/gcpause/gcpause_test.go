package gcpause

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
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

// restored waits for the percentage that was set before.
func restored(t *testing.T, want int) {
	t.Helper()
	runtime.GC()
	await.True(t, "the percentage that was set", func() bool { return currentPercent() == want })
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
		end := Start(512 << 20)
		if n := collections(48 << 20); n != 0 {
			t.Errorf("with %d bytes alive: collected %d times", alive, n)
		}
		end()
		end()
		await.True(t, "collected after the end", func() bool { return collections(16<<20) > 0 })
		restored(t, 100)
		end = Start(32 << 20)
		await.True(t, "collected after more than was asked for", func() bool { return collections(64<<20) > 0 })
		end()
		restored(t, 100)
		runtime.KeepAlive(held)
	}
}

// goal returns how large the heap may be before it is collected.
func goal() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// isNear reports whether two sizes are about the same.
func isNear(a, b uint64) bool { return max(a, b)-min(a, b) < 4<<20 }

// However often memory is collected meanwhile, and however much of it is alive then, it grows no further than was asked
// for.
func TestTheHeapGrowsNoFurtherThanWasAskedFor(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	stop := make(chan struct{})
	defer close(stop)
	var waiting sync.WaitGroup
	for range 300 { // stacks are part of what the percentage is of
		waiting.Add(1)
		go deep(64, &waiting, stop)
	}
	waiting.Wait()
	const most = 256 << 20
	runtime.GC()
	end := Start(most)
	defer end()
	want := readHeap().used + most
	if got := goal(); !isNear(got, want) {
		t.Errorf("collected at %d bytes, want %d", got, want)
	}
	for range 3 {
		kept = append(kept, make([]byte, 16<<20))
		runtime.GC()
		await.True(t, "the same bound", func() bool { return isNear(goal(), want) })
	}
	kept = append(kept, make([]byte, most/2))
	runtime.GC()
	await.True(t, "the percentage that was set", func() bool { return currentPercent() == 100 })
	kept = nil
	end()
	restored(t, 100)
}

// deep waits with a stack of so many times a kilobyte.
func deep(kilobytes int, waiting *sync.WaitGroup, stop chan struct{}) byte {
	var room [1024]byte
	if kilobytes > 0 {
		room[kilobytes] = deep(kilobytes-1, waiting, stop)
	} else {
		waiting.Done()
		<-stop
	}
	return room[kilobytes]
}

// beginCollecting returns when the collector is at work. What it returns waits for its end.
func beginCollecting(t *testing.T) (wait func()) {
	t.Helper()
	before, done := pauses(), make(chan struct{})
	go func() { defer close(done); runtime.GC() }()
	for pauses() == before {
		runtime.Gosched()
	}
	return func() { <-done }
}

// pauses returns how often the collector has stopped the program, which it does before it works and after.
func pauses() (sum uint64) {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	for _, n := range sample[0].Value.Float64Histogram().Counts {
		sum += n
	}
	return sum
}

// What is alive is not known while the collector works, and may be many times as much as before.
func TestItMayBeginAndEndWhileMemoryIsCollected(t *testing.T) {
	const most, before = 512 << 20, 3000 // so that nothing is collected but when it shall be
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	for range 5 {
		runtime.GC()
		var list *link
		for range 1 << 17 {
			list = &link{next: list}
		}
		want := readHeap().used*(100+before)/100 + 64<<20 // it is more than was asked for
		wait := beginCollecting(t)
		end := Start(most)
		wait()
		await.True(t, "no more than there would be", func() bool { return goal() < want })
		wait = beginCollecting(t)
		end()
		wait()
		await.True(t, "no more than there was", func() bool { return goal() < want })
		runtime.KeepAlive(list)
		restored(t, before)
	}
}

type link struct {
	next *link
	_    [504]byte
}

func TestOneAtATime(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	first := Start(64 << 20)
	raised := currentPercent()
	second := Start(128 << 20)
	if got := currentPercent(); got != raised || raised <= 100 {
		t.Errorf("got %d percent, and %d for a second one", raised, got)
	}
	second()
	if got := currentPercent(); got != raised {
		t.Errorf("got %d percent after the second has ended, want %d", got, raised)
	}
	first()
	third := Start(128 << 20) // the collector has not come yet
	runtime.GC()
	if got := currentPercent(); got <= raised {
		t.Errorf("got %d percent for one after another, want more than %d", got, raised)
	}
	third()
	restored(t, 100)
}

func TestWhatIsMoreAlreadyStays(t *testing.T) {
	for _, set := range []int{100_000, -1} {
		before := debug.SetGCPercent(set)
		end := Start(1 << 20)
		if got := debug.SetGCPercent(set); got != set {
			t.Errorf("got %d percent, want %d", got, set)
		}
		end()
		if got := debug.SetGCPercent(before); got != set {
			t.Errorf("got %d percent after the end, want %d", got, set)
		}
	}
}
