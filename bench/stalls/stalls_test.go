package stalls

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// Whatever the machine does meanwhile, what is told lies between the beginning and the end, and is of stalls.
func TestAWatchTellsWhenCoresStoodStill(t *testing.T) {
	start := time.Now()
	w, err := Begin(start, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * Tick) // there is nothing to wait for: it watches
	told, seen := w.End()
	lasted := time.Since(start)
	if !seen {
		if told != nil {
			t.Errorf("it could not see, and told %v", told)
		}
		t.Skip("without the right to be first nothing is seen")
	}
	for i, s := range told {
		if s.From < -time.Millisecond || s.To > lasted+time.Millisecond || s.To-s.From <= Tick+Least || i > 0 && s.To < told[i-1].To {
			t.Errorf("in %s a core stood still as told in %v: want times in it, of more than %s, in order", lasted, told, Tick+Least)
		}
	}
}

func TestAWatchOfNothingSeesNothing(t *testing.T) {
	w, err := Begin(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if told, seen := w.End(); seen || told != nil {
		t.Errorf("got %v, %v", told, seen)
	}
}

// A thread's time is what it ran, what the kernel let it wait, and what it slept.
func TestAThreadsTimeIsSplit(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, err := OwnThread()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = thread.Close() }()
	measure := func(do func()) (time.Duration, Times) {
		before, err := thread.Times()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		do()
		lasted := time.Since(start)
		after, err := thread.Times()
		if err != nil {
			t.Fatal(err)
		}
		return lasted, after.Since(before)
	}
	const long = 50 * time.Millisecond
	busy := func() {
		for end := time.Now().Add(long); time.Now().Before(end); {
		}
	}
	lasted, got := measure(func() { time.Sleep(long) })
	if got.Ran > long/2 || lasted-got.Ran-got.Queued < long/2 {
		t.Errorf("asleep for %s: ran %s, queued %s", lasted, got.Ran, got.Queued)
	}
	lasted, got = measure(busy)
	if sum := got.Ran + got.Queued; sum < lasted/2 || sum > lasted*3/2 {
		t.Errorf("busy for %s: ran %s, queued %s", lasted, got.Ran, got.Queued)
	}

	// As many other threads as keep every core busy several times over.
	var stop atomic.Bool
	var group sync.WaitGroup
	defer group.Wait()
	defer stop.Store(true)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4*runtime.NumCPU() + 1))
	for range 4 * runtime.NumCPU() {
		group.Go(func() {
			for !stop.Load() {
			}
		})
	}
	for start, queued := time.Now(), time.Duration(0); queued < long/5; {
		_, got := measure(busy)
		if queued += got.Queued; time.Since(start) > time.Minute {
			t.Fatalf("busy beside %d other threads for %s: queued %s", 4*runtime.NumCPU(), time.Since(start), queued)
		}
	}
}

// A pipe that nobody reads is full at some time, and who writes to it waits.
func TestArrivalsThatNobodyTakesEnd(t *testing.T) {
	t.Parallel()
	a, err := Arrive(time.Now(), 50*time.Microsecond)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}

	for range 10 {
		if _, err := a.Next(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // in which it sends more than fits: nobody can see when it waits
	ended := make(chan struct{})
	go func() { defer close(ended); a.Close() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}
