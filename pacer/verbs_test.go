package pacer

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestReservationsOfEveryPacer(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) Pacer
		// The delays of reservations of 6, 5, 4 and 1, and that of the 1 if the 5 and 4 are cancelled before.
		want    [4]time.Duration
		freed   time.Duration
		toomuch error
	}{
		{
			"Bursty", func(t *testing.T) Pacer { return newBursty(t, BurstyOptions{Rate: PerSecond(10)}) },
			[4]time.Duration{0, 600 * ms, 1100 * ms, 1500 * ms},
			600 * ms, nil,
		},
		{
			"Allowance", func(t *testing.T) Pacer { return newAllowance(t, PerSecond(10)) },
			[4]time.Duration{0, time.Second, time.Second, time.Second},
			0, ErrNever,
		},
		{"TokenQueue", func(t *testing.T) Pacer {
			return newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10, StartFull: true})
		}, [4]time.Duration{0, 100 * ms, 500 * ms, 600 * ms}, 0, ErrNever},
		{
			"Queue", func(t *testing.T) Pacer { return newQueue(t, PerSecond(10), 10) },
			[4]time.Duration{0, 600 * ms, 1100 * ms, 1500 * ms},
			600 * ms, ErrNever,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := c.make(t)
				var made []Reservation
				for i, n := range []int64{6, 5, 4, 1} {
					r := p.Reserve(n)
					if got := r.Delay(); !r.OK() || got != c.want[i] {
						t.Errorf("reservation of %d: Err %v, delay %v, want nil, %v", n, r.Err(), got, c.want[i])
					}
					made = append(made, r)
				}
				for _, r := range made[1:] {
					r.Cancel()
				}
				if got := next(p); got != c.freed {
					t.Errorf("with all cancelled but the first the next waits %v, want %v", got, c.freed)
				}
				if err := p.Reserve(11).Err(); !errors.Is(err, c.toomuch) {
					t.Errorf("reservation of 11: %v, want %v", err, c.toomuch)
				}
				if err := p.Reserve(0).Err(); !errors.Is(err, ErrInvalidCount) {
					t.Errorf("reservation of 0: %v, want ErrInvalidCount", err)
				}
			})
		})
	}
}

func TestReservationsAreRefusedAfterClose(t *testing.T) {
	q := newQueue(t, PerSecond(10), 10)
	tokens := newTokenQueue(t, TokenQueueOptions{Rate: PerSecond(10), Capacity: 10})
	q.Reserve(1)
	held := q.Reserve(5)
	q.Close()
	tokens.Close()
	for name, p := range map[string]Pacer{"Queue": q, "TokenQueue": tokens} {
		if r := p.Reserve(1); r.OK() || !errors.Is(r.Err(), ErrClosed) {
			t.Errorf("%s: reservation after Close: OK %v, Err %v, want false, ErrClosed", name, r.OK(), r.Err())
		}
		if p.TryAcquire(1, time.Hour) {
			t.Errorf("%s: TryAcquire after Close = true, want false", name)
		}
	}
	held.Cancel()
	if got := q.Waiting(); got != 0 {
		t.Errorf("Waiting() after Close = %d, want 0", got)
	}
}

func TestReservationsAndTriersTakeUpRoomInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		q.Reserve(10)
		held := q.Reserve(6)
		if got, want := q.Waiting(), int64(6); got != want {
			t.Errorf("Waiting() = %d, want %d", got, want)
		}
		if err := q.Reserve(5).Err(); !errors.Is(err, ErrQueueFull) {
			t.Errorf("reservation of 5 with room for 4: %v, want ErrQueueFull", err)
		}
		if _, err := q.Acquire(context.Background(), 5); !errors.Is(err, ErrQueueFull) {
			t.Errorf("Acquire of 5 with room for 4: %v, want ErrQueueFull", err)
		}
		start := time.Now()
		if got := q.TryAcquire(5, time.Hour); got || time.Since(start) != 0 {
			t.Errorf("TryAcquire of 5 with room for 4 = %v after %v, want false at once", got, time.Since(start))
		}
		held.Cancel()
		if got := q.TryAcquire(5, time.Second); !got || time.Since(start) != time.Second {
			t.Errorf("TryAcquire of 5 = %v after %v, want true after 1s", got, time.Since(start))
		}
		if got := q.Waiting(); got != 0 {
			t.Errorf("Waiting() = %d, want 0", got)
		}
	})
}

// Reservations go by the rate: the keeper's job that overruns holds up those who wait, and not them.
func TestAReservationDoesNotWaitForAJobThatOverruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		log := jobLog{start: time.Now()}
		ctx := context.Background()
		submit(ctx, t, q, 1, log.job("a", 350*ms))
		r := q.Reserve(1)
		last := submit(ctx, t, q, 1, log.job("b", 0))
		if got, want := r.Delay(), 100*ms; got != want {
			t.Errorf("the reservation waits %v, want %v", got, want)
		}
		time.Sleep(200 * ms)
		r.Cancel() // too late
		if q.TryAcquire(1, 100*ms) {
			t.Error("TryAcquire while a job overruns = true, want false")
		}
		<-last
		log.check(t, []jobRun{{"a", 0}, {"b", 450 * ms}})
	})
}

func TestAJobThatExitsItsGoroutineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, PerSecond(10), 10)
		log := jobLog{start: time.Now()}
		ctx := context.Background()
		exit := func(context.Context) error {
			time.Sleep(10 * ms)
			runtime.Goexit()
			return nil
		}
		first := submit(ctx, t, q, 1, exit)
		second := submit(ctx, t, q, 1, exit)
		last := submit(ctx, t, q, 1, log.job("a", 0))
		for i, result := range []<-chan error{first, second} {
			if err := <-result; !errors.Is(err, ErrJobExited) {
				t.Errorf("result %d = %v, want ErrJobExited", i+1, err)
			}
		}
		// In line when the keeper's goroutine ends, and with the time kept for it by that one.
		waited, err := q.Acquire(ctx, 1)
		if want := 190 * ms; err != nil || waited != want {
			t.Errorf("Acquire = %v, %v, want %v, nil", waited, err, want)
		}
		if err := <-last; err != nil {
			t.Errorf("result of the job after = %v, want nil", err)
		}
		log.check(t, []jobRun{{"a", 200 * ms}})
		third := submit(ctx, t, q, 1, exit)
		synctest.Wait()
		q.Close() // waits for the goroutine, whichever it is by now
		if len(third) != 1 {
			t.Error("a job has no result after Close")
		}
	})
}

// The panic of a job goes on to crash the program, and nobody is told that the job is over.
func TestAJobThatPanicsIsNotHeldBack(t *testing.T) {
	j := &job{ctx: context.Background(), result: make(chan error, 1), stopWatching: func() {}, do: func(context.Context) error {
		panic("it rained")
	}}
	defer func() {
		if got := recover(); got != "it rained" {
			t.Errorf("the panic is %v, want it rained", got)
		}
		if len(j.result) != 0 {
			t.Errorf("result = %v, want none", <-j.result)
		}
	}()
	j.run(context.Background(), &callerQueue{epoch: time.Now()}, 1, func(time.Duration, bool) {
		t.Error("the line was told to go on")
	})
}
