package memstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// An owned is a store in which a slow decision has seen the entry of the key "first", and goes on when the slot of that
// entry is another key's.
type owned struct {
	*Store
	t     *testing.T
	clock *fakeClock
	limit headgate.Limit
	plan  *plan
	slow  claim
	heirs []string // keys that come to stand in the slot once it is free
}

func newOwned(t *testing.T, limit string) *owned {
	clock := &fakeClock{}
	o := &owned{Store: newStore(t, Options{Now: clock.Now}), t: t, clock: clock, limit: headgate.MustParseLimit(limit)}
	p, err := o.newPlan(o.limit)
	if err != nil {
		t.Fatal(err)
	}
	o.plan = p
	hash := o.hash(p, "first")
	for i := 0; len(o.heirs) < 2; i++ {
		if h := o.hash(p, key(i)); h>>56 == hash>>56 && tagOf(h)%maxSlots == tagOf(hash)%maxSlots {
			o.heirs = append(o.heirs, key(i))
		}
	}
	return o
}

// see lets the slow decision see the first key.
func (o *owned) see() {
	o.t.Helper()
	if o.slow = (claim{operation: o.newOperation(o.plan, "first", 1)}); !o.inspect(&o.slow, 0) {
		o.t.Fatal("the first key is not seen")
	}
}

func (o *owned) check(key string, cost int64) headgate.Check {
	return headgate.Check{Key: key, Limit: o.limit, Cost: cost}
}

// reset forgets a key, and frees its slot.
func (o *owned) reset(key string) {
	o.t.Helper()
	if err := o.Reset(o.t.Context(), o.check(key, 0)); err != nil {
		o.t.Fatal(err)
	}
	o.tidy()
}

func (o *owned) tidy() {
	n, now := o.slow.shard(), o.now()
	o.shards[n].mu.Lock()
	defer o.shards[n].mu.Unlock()
	o.dirs[n].Load().segments[0].tidy(&tidyOptions{layouts: &o.layouts, ref: now, now: now, keepDead: keepDeadMicros})
}

// publish makes a segment the only one of the slow decision's shard.
func (o *owned) publish(g *segment) {
	d := newDirectory(0, len(g.slots))
	d.set(0, g)
	n := o.hash(o.plan, "first") >> (64 - shardBits)
	o.shards[n].mu.Lock()
	defer o.shards[n].mu.Unlock()
	o.dirs[n].Store(d)
}

// useAgain releases a segment, and returns a new one in the same memory.
func (o *owned) useAgain(g *segment) *segment {
	o.release(g)
	for range 1_000 { // the keeper of the stock may have it meanwhile
		if again := o.newLargeSegment(0); again.base() == g.base() {
			return again
		}
	}
	if runtime.GOOS == "linux" {
		o.t.Fatal("a segment's memory was not used again in 1,000 attempts")
	}
	o.t.Skip("this system does not take memory back by segments")
	return nil
}

// goOn lets the slow decision go on. The slot is the owner's now, who has so many units left.
func (o *owned) goOn(owner string, left int64) {
	o.t.Helper()
	if got := atomic.LoadUint64(&o.slow.slot.tag) >> layoutBits; got != tagOf(o.hash(o.plan, owner)) {
		o.t.Fatalf("the slot has the tag %x, want it to be that of %s", got, owner)
	}
	if o.slow.swap(true) {
		o.t.Errorf("what was to be taken from the first key was written to the entry of %s", owner)
	}
	if d := take(o.t, o.Store, owner, o.limit.String(), 0); d.Remaining != left {
		o.t.Errorf("%s: %d remaining, want %d", owner, d.Remaining, left)
	}
}

// One who has read an entry cannot write to the slot when it has become another key's, though as much was consumed at
// the same time: the key was reset, or given everything back, and the slot went to one that was taken from with it.
func TestASlotThatHasANewOwnerIsNotWrittenTo(t *testing.T) {
	for _, tt := range []struct {
		name, limit string
		later       time.Duration
		empty       func(o *owned, r headgate.Receipt) error
	}{
		{"reset", "100/h burst 10", 10 * time.Millisecond, func(o *owned, _ headgate.Receipt) error {
			return o.Reset(t.Context(), o.check("first", 0))
		}},
		{"given back", "5/m burst 10", 0, func(o *owned, r headgate.Receipt) error {
			return o.Give(t.Context(), o.check("first", 5), r)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOwned(t, tt.limit)
			second := o.heirs[0]
			ds := takeAll(t, o.Store, []headgate.Check{o.check("first", 5), o.check(second, 5)})
			if !headgate.Allowed(ds) {
				t.Fatalf("got %+v, want both allowed", ds)
			}
			o.clock.advance(tt.later)
			o.see()
			if err := tt.empty(o, ds[0].Receipt); err != nil {
				t.Fatal(err)
			}
			o.tidy()
			o.goOn(second, 5)
		})
	}
}

// Nor when others have had the slot in between, however many. The entries of a fixed window are the same for all that
// have consumed as much of it.
func TestASlotThatHasHadSeveralOwnersIsNotWrittenTo(t *testing.T) {
	for between := range 4 {
		o := newOwned(t, "10/d fixed-window")
		take(t, o.Store, "first", o.limit.String(), 5)
		o.see()
		o.reset("first")
		for range between {
			take(t, o.Store, o.heirs[0], o.limit.String(), 5)
			o.reset(o.heirs[0])
		}
		take(t, o.Store, o.heirs[1], o.limit.String(), 5)
		o.goOn(o.heirs[1], 5)
	}
}

// Nor when the memory was given back to the system in between and is that of another segment now.
func TestASlotOfMemoryThatIsUsedAgainIsNotWrittenTo(t *testing.T) {
	o := newOwned(t, "10/d fixed-window")
	g := o.newLargeSegment(0)
	o.publish(g)
	take(t, o.Store, "first", o.limit.String(), 5)
	o.see()
	o.reset("first")
	o.publish(newSegment(minSlots, 0))
	again := o.useAgain(g)
	o.publish(again)
	take(t, o.Store, o.heirs[0], o.limit.String(), 5)
	o.goOn(o.heirs[0], 5)
}

// One who looks for a key in memory that was released may look still when it is that of another segment. What is
// written there is written for it too, in order; it is the race detector that tells.
func TestMemoryThatIsUsedAgainIsWrittenForThoseWhoStillLook(t *testing.T) {
	o := newOwned(t, "10/d fixed-window")
	op := o.newOperation(o.plan, "first", 1)
	entry := slot{tag: op.tagWord(), state: op.seal(algorithm.Pair{Time: op.now, Units: 1, Last: op.now})}
	g := o.useAgain(o.newLargeSegment(0))
	base := g.base()
	stop := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(stop)
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if e := probe(base, maxSlots-1, op.tag()); e != nil {
				atomic.LoadUint64(&e.state)
			}
		}
	})
	for range 1_000 {
		g.fill([]slot{entry})
		g.tidy(&tidyOptions{layouts: &o.layouts, moveBits: ^uint64(0), ref: op.now, now: op.now})
		g = o.useAgain(g)
	}
}
