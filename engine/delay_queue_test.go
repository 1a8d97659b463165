package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

func TestQueueIsBounded(t *testing.T) {
	for _, limit := range []string{"10/s burst 1", "10/s burst 100 leaky-bucket"} {
		b := newBenchWith(t, engine.Config{MaxWaiting: 2},
			rules.Rule{ID: "a", Key: by(user), Limits: limits(limit), OnLimit: delayed(time.Minute), Status: 503})
		first := b.ask(alice())
		second, third := b.ask(alice()), b.ask(alice())
		if first.Action != engine.Allow || second.Action != engine.Delay || third.Action != engine.Delay || b.Waiting() != 2 {
			t.Fatalf("%s: got %s, %s, %s, %d wait", limit, said(first), said(second), said(third), b.Waiting())
		}
		before := remaining(t, b.Engine, alice())
		v := b.ask(alice())
		if said(v) != "reject (queue full) by a" || v.Status != 503 || v.RetryAfter != 300*time.Millisecond {
			t.Errorf("%s: got %s, status %d, retry after %v", limit, said(v), v.Status, v.RetryAfter)
		}
		if after := remaining(t, b.Engine, alice()); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: got %v, want %v", limit, after, before)
		}
		// A place that is given up is free for the next.
		cancel(t, third)
		if v := b.ask(alice()); said(v) != "delay by a" || v.Delay != 200*time.Millisecond || b.Waiting() != 2 {
			t.Errorf("%s: got %s, %v, %d wait", limit, said(v), v.Delay, b.Waiting())
		}
		settle(t, second, nil) // without having waited
		if b.Waiting() != 1 {
			t.Errorf("%s: %d wait, want 1", limit, b.Waiting())
		}
	}
}

// Who uses a verdict again without having ended its request has at least no slot left behind.
func TestSlotOfAVerdictThatIsUsedAgain(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/s burst 1"), OnLimit: delayed(time.Second)})
	b.ask(alice())
	var v engine.Verdict
	for range 5 {
		if err := b.Decide(context.Background(), alice(), &v); err != nil || v.Action != engine.Delay || b.Waiting() != 1 {
			t.Fatalf("got %s, %v, %d wait, want 1", said(&v), err, b.Waiting())
		}
	}
}

func TestZeroQueueDelaysNothing(t *testing.T) {
	b := newBenchWith(t, engine.Config{MaxWaiting: -1},
		rules.Rule{ID: "a", Key: by(user), Limits: limits("10/s burst 1"), OnLimit: delayed(time.Minute)})
	b.ask(alice())
	if v := b.ask(alice()); said(v) != "reject (queue full) by a" || b.Waiting() != 0 {
		t.Errorf("got %s, %d wait", said(v), b.Waiting())
	}
}

// Many who come at once never are more than may wait, and who finds no room takes nothing.
func TestQueueIsBoundedForACrowd(t *testing.T) {
	const most, crowd = 20, 200
	b := newBenchWith(t, engine.Config{MaxWaiting: most},
		rules.Rule{ID: "a", Key: by(user), Limits: limits("1/s burst 1"), OnLimit: delayed(5 * time.Minute)})
	verdicts := make([]engine.Verdict, crowd)
	var all sync.WaitGroup
	for i := range verdicts {
		all.Go(func() {
			if err := b.Decide(context.Background(), alice(), &verdicts[i]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := map[engine.Action]int{}
	var holds []time.Duration
	for i := range verdicts {
		v := &verdicts[i]
		count[v.Action]++
		if v.Action == engine.Delay {
			holds = append(holds, v.Delay)
		}
		if v.Action == engine.Reject && v.Reason != engine.QueueFull {
			t.Errorf("got %s", said(v))
		}
	}
	if count[engine.Allow] != 1 || count[engine.Delay] != most || b.Waiting() != most {
		t.Errorf("got %v, %d wait, want 1 allowed and %d delayed", count, b.Waiting(), most)
	}
	slices.Sort(holds)
	for i := range verdicts {
		if err := verdicts[i].Cancel(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if left := remaining(t, b.Engine, alice()); left["a:1"] != 1 || b.Waiting() != 0 {
		t.Errorf("after all have gone: %v left, %d wait", left, b.Waiting())
	}
}

// bubble runs a test in virtual time, on a store that lives by it.
func bubble(t *testing.T, c engine.Config, list []rules.Rule, test func(t *testing.T, e *engine.Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		c.Store, c.Rules = store, compile(t, list)
		test(t, newEngine(t, c))
	})
}

// What passes after its wait is never more than the limit lets pass, and comes in the order in which it asked.
func TestThousandDelayedRequests(t *testing.T) {
	const requests, rate, burst = 1000, 50, 10
	list := []rules.Rule{{ID: "a", Key: by(user), Limits: limits(fmt.Sprint(rate, "/s burst ", burst)), OnLimit: delayed(30 * time.Second)}}
	bubble(t, engine.Config{}, list, func(t *testing.T, e *engine.Engine) {
		start := time.Now()
		type pass struct {
			n  int
			at time.Duration
		}
		var mu sync.Mutex
		var passed []pass
		var all sync.WaitGroup
		for n := range requests {
			v := decide(t, e, alice())
			all.Go(func() {
				if err := v.Wait(context.Background()); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				passed = append(passed, pass{n, time.Since(start)})
				mu.Unlock()
				settle(t, v, nil)
			})
			if n%100 == 99 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		if e.Waiting() < requests/2 {
			t.Errorf("%d wait, want most of them", e.Waiting())
		}
		all.Wait()
		if len(passed) != requests || e.Waiting() != 0 {
			t.Fatalf("%d of %d passed, %d still wait", len(passed), requests, e.Waiting())
		}
		slices.SortStableFunc(passed, func(a, b pass) int { return int(a.at - b.at) })
		for i, p := range passed {
			if i > 0 && p.at > passed[i-1].at && p.n < passed[i-1].n {
				t.Errorf("request %d passed at %v, after request %d", p.n, p.at, passed[i-1].n)
			}
			if most := burst + int(p.at*rate/time.Second); i+1 > most {
				t.Fatalf("%d had passed at %v, want at most %d", i+1, p.at, most)
			}
		}
		if last := passed[requests-1].at; last > (requests-burst)*time.Second/rate+time.Millisecond {
			t.Errorf("the last passed at %v, later than need be", last)
		}
	})
}

// Every slot, unit and goroutine comes back when clients hang up. (synctest fails if a goroutine stays.)
func TestThousandDelayedRequestsOfClientsThatHangUp(t *testing.T) {
	list := []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("50/s burst 10"), OnLimit: delayed(30 * time.Second)},
		{ID: "places", Limits: limits("2000 concurrent ttl 1h")},
		{ID: "all", Limits: limits("1000000/h burst 5000")},
	}
	bubble(t, engine.Config{}, list, func(t *testing.T, e *engine.Engine) {
		from := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		var mu sync.Mutex
		served, hungUp := 0, 0
		for range 1000 {
			ctx, end := context.WithCancel(context.Background())
			var v engine.Verdict
			if err := e.Decide(ctx, alice(), &v); err != nil || !v.Action.Passes() {
				t.Fatalf("got %s, %v", said(&v), err)
			}
			hangsUp := time.Duration(from.Int64N(int64(20 * time.Second)))
			all.Go(func() {
				defer end()
				timer := time.AfterFunc(hangsUp, end)
				defer timer.Stop()
				err := v.Wait(ctx)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					served++
					settle(t, &v, nil)
				case errors.Is(err, context.Canceled):
					hungUp++
					settle(t, &v, nil) // nothing is left to settle
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if served == 0 || hungUp == 0 || served+hungUp != 1000 || e.Waiting() != 0 {
			t.Errorf("%d served, %d hung up, %d wait", served, hungUp, e.Waiting())
		}
		left := remaining(t, e, alice())
		if left["places:1"] != 2000 {
			t.Errorf("%d places, want all 2000", left["places:1"])
		}
		time.Sleep(time.Second) // a second's worth is more than the last can have taken
		if left := remaining(t, e, alice()); left["a:1"] != 10 {
			t.Errorf("%d left, want 10: who hung up has given back", left["a:1"])
		}
	})
}

// If all hang up at once, whatever was reserved is there again at once.
func TestReservationsOfCanceledRequestsAreReturned(t *testing.T) {
	for _, limit := range []string{"1/s burst 5", "7/m burst 5 gcra", "1/s burst 200 leaky-bucket"} {
		list := []rules.Rule{{ID: "a", Key: by(user), Limits: limits(limit), OnLimit: delayed(5 * time.Minute)}}
		bubble(t, engine.Config{}, list, func(t *testing.T, e *engine.Engine) {
			ctx, end := context.WithCancel(context.Background())
			var all sync.WaitGroup
			waiting := 0
			for range 100 {
				var v engine.Verdict
				if err := e.Decide(ctx, alice(), &v); err != nil {
					t.Fatal(err)
				}
				if v.Action != engine.Delay {
					continue
				}
				waiting++
				all.Go(func() {
					if err := v.Wait(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("%s: held for %v, got %v", limit, v.Delay, err)
					}
				})
			}
			if waiting < 25 || e.Waiting() != waiting {
				t.Errorf("%s: %d wait, the engine says %d", limit, waiting, e.Waiting())
			}
			time.Sleep(500 * time.Millisecond)
			end()
			all.Wait()
			if e.Waiting() != 0 {
				t.Errorf("%s: %d still wait", limit, e.Waiting())
			}
			l := headgate.MustParseLimit(limit)
			time.Sleep(l.Period * time.Duration(l.Capacity()) / time.Duration(l.Count)) // those who passed
			if left := remaining(t, e, alice())["a:1"]; left != l.Capacity() {
				t.Errorf("%s: %d left, want %d", limit, left, l.Capacity())
			}
			v := decide(t, e, alice())
			if v.Action != engine.Allow {
				t.Errorf("%s: got %s", limit, said(v))
			}
		})
	}
}

func TestWaitThatCannotEndInTimeEndsAtOnce(t *testing.T) {
	list := []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/s burst 1"), OnLimit: delayed(time.Minute)}}
	bubble(t, engine.Config{}, list, func(t *testing.T, e *engine.Engine) {
		start := time.Now()
		decide(t, e, alice())
		ctx, end := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer end()
		var v engine.Verdict
		if err := e.Decide(ctx, alice(), &v); err != nil || v.Delay != time.Second {
			t.Fatalf("got %s, %v, %v", said(&v), v.Delay, err)
		}
		if err := v.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 0 || e.Waiting() != 0 {
			t.Errorf("waited %v, %d wait", waited, e.Waiting())
		}
		if v := decide(t, e, alice()); v.Delay != time.Second {
			t.Errorf("the next is held for %v, want the place that was given back", v.Delay)
		}
		// A verdict that is no delay does not wait.
		v = engine.Verdict{}
		if err := v.Wait(context.Background()); err != nil || time.Since(start) != 0 {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}
