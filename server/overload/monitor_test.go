package overload

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// run starts a monitor whose goroutines wait for a core as long as wait says.
func run(t *testing.T, wait *atomic.Int64) *Monitor {
	t.Helper()
	m := New(Options{
		Wait:   func() time.Duration { return time.Duration(wait.Load()) },
		Random: func() float64 { return 0.5 },
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	return m
}

// pass lets intervals pass.
func pass(intervals int) {
	time.Sleep(time.Duration(intervals) * interval)
	synctest.Wait()
}

func TestStagesFollowTheLoadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait atomic.Int64
		m := run(t, &wait)
		for stage := Console; stage < numStages; stage++ {
			wait.Store(int64(waits[stage]))
			pass(highIntervals - 1)
			if got := m.Stats().Stage; got != stage-1 {
				t.Errorf("got %v too early, want %v", got, stage-1)
			}
			pass(1)
			if got := m.Stats().Stage; got != stage {
				t.Errorf("got %v, want %v", got, stage)
			}
			for other := Console; other < numStages; other++ {
				if got, want := m.Sheds(other), other <= stage; got != want {
					t.Errorf("at stage %v, %v is shed: %v, want %v", stage, other, got, want)
				}
			}
		}
		wait.Store(0)
		pass(lowIntervals * int(numStages))
		if s := m.Stats(); s.Stage != Nothing || s.Share != 0 {
			t.Errorf("got %+v without load, want nothing shed", s)
		}
	})
}

func TestMeasuredIsCalledWithEachShare(t *testing.T) {
	var got []float64
	shares := []float64{0.5, 0, 1}
	next := 0
	m := New(Options{
		Wait:     func() time.Duration { return 0 },
		Busy:     func() float64 { next++; return shares[next-1] },
		Measured: func(busy float64) { got = append(got, busy) },
		Logger:   slog.New(slog.DiscardHandler),
	})
	for range shares {
		m.measure()
	}
	if !slices.Equal(got, shares) {
		t.Errorf("got %v, want %v", got, shares)
	}
}

func TestCPUShareSeesWork(t *testing.T) {
	share := CPUShare()
	sum := 0.0
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
		sum += math.Sqrt(sum + 1)
	}
	if got := share(); got <= 0 {
		t.Errorf("share %v after work (sum %v), want more than 0", got, sum)
	}
}

func TestOneLongWaitIsNoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait atomic.Int64
		m := run(t, &wait)
		for range 10 { // a process that is stopped again and again
			wait.Store(int64(time.Minute))
			pass(1)
			wait.Store(0)
			pass(1)
		}
		if got := m.Stats().Stage; got != Nothing {
			t.Errorf("got %v, want %v", got, Nothing)
		}
	})
}

func TestRefusedShareGrowsWhileTheWaitIsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait atomic.Int64
		m := run(t, &wait)
		wait.Store(int64(waits[Requests]))
		pass(highIntervals * int(Requests))
		if m.Refuses() {
			t.Error("half of the requests are refused at once")
		}
		pass(10)
		if !m.Refuses() {
			t.Errorf("got share %v after 10 intervals, want at least 0.5", m.Stats().Share)
		}
		pass(100)
		if got := m.Stats().Share; math.Abs(got-maxShare) > 0.001 {
			t.Errorf("got share %v, want at most %v", got, maxShare)
		}
		wait.Store(0)
		pass(int(maxShare/shareStep) + 1)
		if m.Refuses() {
			t.Errorf("got share %v after the load has ended, want 0", m.Stats().Share)
		}
		if got := m.Stats().Shed[Requests]; got != 1 {
			t.Errorf("got %d refused, want 1", got)
		}
	})
}

func TestQuantileOfWaits(t *testing.T) {
	buckets := []float64{math.Inf(-1), 0, 0.001, 0.1, 1, math.Inf(1)}
	for _, test := range []struct {
		counts []uint64
		want   time.Duration
	}{
		{[]uint64{0, 0, 0, 9, 0}, 0}, // too few
		{[]uint64{0, 90, 10, 0, 0}, 0},
		{[]uint64{0, 80, 10, 10, 0}, time.Millisecond},
		{[]uint64{0, 10, 0, 0, 90}, time.Second},
	} {
		if got := quantileOf(test.counts, buckets); got != test.want {
			t.Errorf("%v: got %v, want %v", test.counts, got, test.want)
		}
	}
}

// Goroutines that keep every core busy make others wait.
func TestSchedulerWaitSeesBusyCores(t *testing.T) {
	wait := SchedulerWait()
	wait()
	var busy sync.WaitGroup
	for range 512 * runtime.GOMAXPROCS(0) { // the runtime measures one wait in eight
		busy.Go(func() {
			for began := time.Now(); time.Since(began) < 200*time.Microsecond; {
			}
		})
	}
	busy.Wait()
	if got := wait(); got < time.Millisecond {
		t.Errorf("got %v, want at least 1ms", got)
	}
}
