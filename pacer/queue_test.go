package pacer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// jobLog records when jobs run.
type jobLog struct {
	mu    sync.Mutex
	start time.Time
	ran   []jobRun
}

type jobRun struct {
	name string
	at   time.Duration
}

func (l *jobLog) job(name string, takes time.Duration) func(context.Context) error {
	return func(context.Context) error {
		l.mu.Lock()
		l.ran = append(l.ran, jobRun{name, time.Since(l.start)})
		l.mu.Unlock()
		time.Sleep(takes)
		return nil
	}
}

func (l *jobLog) check(t *testing.T, want []jobRun) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range max(len(l.ran), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("run %d: got %v, want none", i+1, l.ran[i])
		case i >= len(l.ran):
			t.Errorf("run %d: got none, want %v", i+1, want[i])
		case l.ran[i] != want[i]:
			t.Errorf("run %d: got %v, want %v", i+1, l.ran[i], want[i])
		}
	}
}

func submit(ctx context.Context, t *testing.T, q *Queue, size int64, do func(context.Context) error) <-chan error {
	t.Helper()
	result, err := q.Submit(ctx, size, do)
	if err != nil {
		t.Fatalf("Submit of size %d: %v", size, err)
	}
	return result
}

func TestQueueRunsJobsInOrderAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		log := jobLog{start: time.Now()}
		ctx := context.Background()
		submit(ctx, t, q, 1, log.job("a", 0))
		submit(ctx, t, q, 5, log.job("b", 0))
		submit(ctx, t, q, 2, log.job("c", 50*ms)) // shorter than its turn
		submit(ctx, t, q, 1, log.job("d", 0))
		if got, want := q.Waiting(), int64(8); got != want {
			t.Errorf("Waiting() = %d, want %d: a is not waiting", got, want)
		}
		if _, err := q.Submit(ctx, 3, log.job("x", 0)); !errors.Is(err, ErrQueueFull) {
			t.Errorf("Submit of size 3 with room for 2 = %v, want ErrQueueFull", err)
		}
		last := submit(ctx, t, q, 2, log.job("e", 0))
		if err := <-last; err != nil {
			t.Errorf("result = %v, want nil", err)
		}
		log.check(t, []jobRun{{"a", 0}, {"b", 100 * ms}, {"c", 600 * ms}, {"d", 800 * ms}, {"e", 900 * ms}})
		if got := q.Waiting(); got != 0 {
			t.Errorf("Waiting() = %d, want 0", got)
		}
	})
}

func TestQueueDoesNotMakeUpForAJobThatOverran(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		log := jobLog{start: time.Now()}
		ctx := context.Background()
		submit(ctx, t, q, 1, log.job("a", 350*ms))
		submit(ctx, t, q, 1, log.job("b", 0))
		submit(ctx, t, q, 1, log.job("c", 0))
		time.Sleep(200 * ms)
		// A caller who waits behind jobs that are overdue goes at 550 ms.
		waited, err := q.Acquire(ctx, 1)
		if want := 350 * ms; err != nil || waited != want {
			t.Errorf("Acquire = %v, %v, want %v, nil", waited, err, want)
		}
		log.check(t, []jobRun{{"a", 0}, {"b", 350 * ms}, {"c", 450 * ms}})
	})
}

func TestQueueDropsAJobWhoseContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		log := jobLog{start: time.Now()}
		ctx, cancel := context.WithCancel(context.Background())
		submit(context.Background(), t, q, 5, log.job("a", 0))
		dropped := submit(ctx, t, q, 8, log.job("b", 0))
		last := submit(context.Background(), t, q, 1, log.job("c", 0))
		time.Sleep(100 * ms)
		cancel()
		if err := <-dropped; !errors.Is(err, context.Canceled) {
			t.Errorf("result of the dropped job = %v, want context.Canceled", err)
		}
		if got, want := q.Waiting(), int64(1); got != want {
			t.Errorf("Waiting() = %d, want %d", got, want)
		}
		<-last
		log.check(t, []jobRun{{"a", 0}, {"c", 500 * ms}})
	})
}

func TestAJobWhoseContextEndsWhileItIsDueIsNotRun(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name         string
		ctx, running context.Context
		want         error
	}{
		{"its own context", over, context.Background(), context.Canceled},
		{"the queue's", context.Background(), over, ErrClosed},
	} {
		j := &job{ctx: c.ctx, result: make(chan error, 1), stopWatching: func() {}, do: func(context.Context) error {
			t.Errorf("%s: the job ran", c.name)
			return nil
		}}
		j.run(c.running, &callerQueue{epoch: time.Now()}, 1, func(time.Duration, bool) {})
		if got := <-j.result; !errors.Is(got, c.want) {
			t.Errorf("%s: result = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestQueueReportsWhatAJobReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		type key struct{}
		ctx := context.WithValue(context.Background(), key{}, "value")
		want := errors.New("it rained")
		result := submit(ctx, t, q, 1, func(ctx context.Context) error {
			if got := ctx.Value(key{}); got != "value" {
				t.Errorf("the job's context has %v, want value", got)
			}
			return want
		})
		if got := <-result; !errors.Is(got, want) {
			t.Errorf("result = %v, want %v", got, want)
		}
	})
}

func TestCloseOfAQueueSendsThoseWaitingAwayAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		start := time.Now()
		var ended time.Duration
		running := submit(context.Background(), t, q, 1, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second) // it takes a while to clean up
			ended = time.Since(start)
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		waiting := submit(ctx, t, q, 1, func(context.Context) error {
			t.Error("a job ran that was waiting when the queue was closed")
			return nil
		})
		waiter := make(chan error, 1)
		go func() {
			_, err := q.Acquire(context.Background(), 1)
			waiter <- err
		}()
		time.Sleep(50 * ms)
		var wg sync.WaitGroup
		for range 2 { // every caller of Close waits
			wg.Go(func() {
				q.Close()
				if got, want := time.Since(start), 1050*ms; got != want || ended != want {
					t.Errorf("Close returns at %v and the job ended at %v, want %v", got, ended, want)
				}
			})
		}
		if err := <-waiter; !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire = %v, want ErrClosed", err)
		}
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("result of the waiting job = %v, want ErrClosed", err)
		}
		if got, want := time.Since(start), 50*ms; got != want {
			t.Errorf("those waiting were sent away at %v, want %v", got, want)
		}
		if err := <-running; !errors.Is(err, context.Canceled) {
			t.Errorf("result of the running job = %v, want context.Canceled", err)
		}
		wg.Wait()
		if _, err := q.Acquire(context.Background(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire after Close = %v, want ErrClosed", err)
		}
		if _, err := q.Submit(context.Background(), 1, func(context.Context) error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("Submit after Close = %v, want ErrClosed", err)
		}
	})
}

// The context of a job that has run may live on; the queue doesn't wait for it.
func TestCloseOfAQueueForgetsJobsThatHaveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := <-submit(ctx, t, q, 1, func(context.Context) error { return nil }); err != nil {
			t.Errorf("result = %v, want nil", err)
		}
		q.Close() // synctest reports a deadlock if this waits for ctx
	})
}

// A job that Close meets while it waits, is due or runs has exactly one result.
func TestCloseOfAQueueLeavesNoJobWithoutAResult(t *testing.T) {
	for range 300 {
		q := newQueue(t, PerSecond(1_000_000), 10)
		ctx, cancel := context.WithCancel(context.Background())
		var results []<-chan error
		for range 3 {
			results = append(results, submit(ctx, t, q, 1, func(context.Context) error { return nil }))
		}
		go cancel()
		q.Close()
		for i, result := range results {
			select {
			case err := <-result:
				if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
					t.Fatalf("job %d: %v, want nil, ErrClosed or context.Canceled", i+1, err)
				}
			default:
				t.Fatalf("job %d has no result after Close", i+1)
			}
			if len(result) != 0 {
				t.Fatalf("job %d has a second result", i+1)
			}
		}
	}
}

func TestCloseOfATokenQueueSendsThoseWaitingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10})
		time.AfterFunc(50*ms, q.Close)
		play(t, q.Acquire, []caller{
			{at: 0, n: 1, returns: 50 * ms, err: ErrClosed},
			{at: 1, n: 10, returns: 50 * ms, err: ErrClosed},
			{at: 60 * ms, n: 1, returns: 60 * ms, err: ErrClosed},
		})
		if q.TryAcquire(1, time.Hour) {
			t.Error("TryAcquire after Close = true, want false")
		}
		q.Close() // again
	})
}

func TestAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(3), Capacity: 10})
		a := newAllowance(t, PerSecond(10))
		check := func(when string, tokens, permits int64) {
			t.Helper()
			if got := q.Available(); got != tokens {
				t.Errorf("%s: tokens available %d, want %d", when, got, tokens)
			}
			if got := a.Available(); got != permits {
				t.Errorf("%s: permits available %d, want %d", when, got, permits)
			}
		}
		check("at the start", 0, 10)
		a.TryAcquire(4, 0)
		time.Sleep(time.Second - 1)
		check("just before 1 s", 2, 6)
		time.Sleep(time.Nanosecond)
		check("at 1 s", 3, 10)
		q.TryAcquire(1, 0)
		check("with one token gone", 2, 10)
		time.Sleep(time.Hour)
		check("after an hour", 10, 10)
		a.TryAcquire(10, 0)
		if err := a.SetRate(PerSecond(5)); err != nil {
			t.Fatal(err)
		}
		check("with more taken than there now is", 10, 0)
	})
}
