package engine_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// A slotBench is an engine with a limit of two slots in virtual time, on a store that can fail.
type slotBench struct {
	*engine.Engine
	store *enginetest.Store
	mu    sync.Mutex
	errs  []error
}

func newSlotBench(t *testing.T, list ...rules.Rule) *slotBench {
	t.Helper()
	b := &slotBench{store: &enginetest.Store{Limiter: newStore(t, memstore.Options{})}}
	if list == nil {
		list = []rules.Rule{{ID: "slots", Key: by(user), Limits: limits("2 concurrent ttl 3s")}}
	}
	b.Engine = newEngine(t, engine.Config{Store: b.store, Rules: compile(t, list), OnError: func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errs = append(b.errs, err)
	}})
	return b
}

// reported reports whether an error of a kind was told, and forgets all.
func (b *slotBench) reported(kind error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := false
	for _, err := range b.errs {
		is = is || errors.Is(err, kind)
	}
	b.errs = nil
	return is
}

// begin decides a request that keeps its slots, and reports whether it passes.
func (b *slotBench) begin(t *testing.T) (*engine.Verdict, bool) {
	t.Helper()
	v := decide(t, b.Engine, alice())
	v.KeepSlots()
	return v, v.Action.Passes()
}

func end(t *testing.T, v *engine.Verdict) {
	t.Helper()
	if err := v.Settle(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestSlotsAreHeldForAsLongAsTheRequestLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlotBench(t)
		first, _ := b.begin(t)
		second, _ := b.begin(t)
		for range 40 {
			time.Sleep(time.Second)
			if v, passes := b.begin(t); passes {
				t.Fatalf("a third passes while two are served: %+v", v.Decision)
			}
		}
		end(t, first)
		third, passes := b.begin(t)
		if !passes {
			t.Fatal("a third is denied after the first has ended")
		}
		time.Sleep(time.Minute)
		if _, passes := b.begin(t); passes {
			t.Error("a fourth passes while two are served")
		}
		end(t, second)
		if err := third.Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // nothing is renewed any more
		if left := remaining(t, b.Engine, alice()); left["slots:1"] != 2 {
			t.Errorf("%v left after all have ended, want 2", left)
		}
	})
}

// Without KeepSlots, as after a crash, the TTL frees a slot.
func TestSlotsOfThoseThatCrashedExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlotBench(t)
		decide(t, b.Engine, alice())
		decide(t, b.Engine, alice())
		time.Sleep(3*time.Second - time.Microsecond)
		if v := decide(t, b.Engine, alice()); v.Action.Passes() {
			t.Error("a third passes before the TTL")
		}
		time.Sleep(time.Millisecond)
		if v := decide(t, b.Engine, alice()); !v.Action.Passes() {
			t.Error("the slots of the dead are not free after the TTL")
		}
	})
}

// A store that is away for less than two thirds of the TTL loses nothing. After longer the slots are taken again, but
// never beyond the limit.
func TestSlotsOutliveAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlotBench(t)
		first, _ := b.begin(t)
		second, _ := b.begin(t)
		time.Sleep(900 * time.Millisecond)
		b.store.Unreachable.Store(true)
		time.Sleep(1900 * time.Millisecond)
		b.store.Unreachable.Store(false)
		if !b.reported(enginetest.ErrUnreachable) {
			t.Error("that slots could not be renewed is not told")
		}
		if _, passes := b.begin(t); passes {
			t.Error("a third passes after an outage shorter than the TTL")
		}
		time.Sleep(time.Second)
		b.store.Unreachable.Store(true)
		time.Sleep(10 * time.Second)
		b.store.Unreachable.Store(false)
		third, passes := b.begin(t) // both slots have expired, and nobody has renewed them yet
		if !passes {
			t.Fatal("no slot has expired, so that this shows nothing")
		}
		time.Sleep(2 * time.Second)
		if !b.reported(engine.ErrSlotLost) {
			t.Error("that a slot was lost is not told")
		}
		if left := remaining(t, b.Engine, alice()); left["slots:1"] != 0 {
			t.Errorf("%v left, want 0: not one beyond the limit", left)
		}
		end(t, third)
		time.Sleep(2 * time.Second)
		if left := remaining(t, b.Engine, alice()); left["slots:1"] != 0 {
			t.Errorf("%v left, want 0: the one that was lost is counted again", left)
		}
		end(t, first)
		end(t, second)
		if left := remaining(t, b.Engine, alice()); left["slots:1"] != 2 {
			t.Errorf("%v left after all have ended, want 2", left)
		}
	})
}

// A verdict that is used again without having been settled renews nothing of the request before.
func TestVerdictThatIsUsedAgainKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlotBench(t)
		v, _ := b.begin(t)
		if err := b.Decide(t.Context(), rules.Attributes{user: "bob"}, v); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if left := remaining(t, b.Engine, alice()); left["slots:1"] != 2 {
			t.Errorf("%v left to alice, want 2", left)
		}
	})
}

// Requests in flight never exceed the limit, even if they hold slots for longer than the TTL.
func TestCrowdOfLongRequestsStaysWithinItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSlotBench(t)
		var inFlight, most, served atomic.Int64
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				var v engine.Verdict
				for i := range 30 {
					time.Sleep(time.Duration(n*37+i*113) * time.Millisecond)
					if err := b.Decide(t.Context(), alice(), &v); err != nil || !v.Action.Passes() {
						continue
					}
					v.KeepSlots()
					now := inFlight.Add(1)
					for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
					}
					time.Sleep(time.Duration(1+(n+i)%12) * time.Second)
					served.Add(1)
					inFlight.Add(-1)
					if err := v.Settle(t.Context(), nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if most.Load() != 2 || served.Load() < 10 {
			t.Errorf("%d in flight at most, %d served, want 2 and at least 10", most.Load(), served.Load())
		}
	})
}

func TestKeepingSlotsAllocatesNothing(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "slots", Key: by(user), Limits: limits("2 concurrent")})
	var v engine.Verdict
	ctx, who := t.Context(), alice()
	serve := func() {
		if err := b.Decide(ctx, who, &v); err != nil {
			t.Fatal(err)
		}
		v.KeepSlots()
		if err := v.Settle(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	serve()
	if got := testing.AllocsPerRun(100, serve); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
