package guard

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// Fault says why a shard does not decide, and of no other shard.
func TestFaultIsThatOfTheShard(t *testing.T) {
	f := newFake(t, nil)
	g := newGuard(t, shardedFake{f}, Options{})
	take(t, g, check("a/1", "10/s"))
	if err := g.Fault(check("a/1", "10/s")); err != nil {
		t.Errorf("got %v of a shard that answers, want nil", err)
	}
	goDown(t, g, f, "a")
	err := g.Fault(check("a/1", "10/s"))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errRefused) {
		t.Errorf("got %v, want that of the shard that is down", err)
	}
	take(t, g, check("b/1", "10/s"))
	if err := g.Fault(check("b/1", "10/s")); err != nil {
		t.Errorf("got %v of another shard, want nil", err)
	}
}

func TestDeadShardLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		take(t, g, check("b/1", "10/s"))
		goDown(t, g, f, "a")
		for range 10 {
			if d := take(t, g, check("a/1", "10/s")); !d.Degraded {
				t.Errorf("a: got %+v, want degraded", d)
			}
		}
		if d := take(t, g, check("b/1", "10/s")); d.Degraded || d.Remaining != 8 {
			t.Errorf("b: got %+v, want exact with 8 remaining", d)
		}
		states := g.Shards()
		names := make([]string, len(states))
		for i, s := range states {
			names[i] = fmt.Sprintf("%s %v %v", s.Name, s.Open, s.Err)
		}
		if want := []string{"a true connection refused", "b false <nil>"}; !slices.Equal(names, want) {
			t.Errorf("got shards %q, want %q", names, want)
		}
	})
}

func TestShardsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		for i := range 5 * maxShards {
			take(t, g, check(fmt.Sprintf("shard%d/1", i), "10/s"))
		}
		if got := len(g.Shards()); got > maxShards+1 {
			t.Errorf("got %d shards, want %d at most", got, maxShards+1)
		}
	})
}

func TestShardThatVanishedIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		var vanished atomic.Int64
		g := newGuard(t, shardedFake{f}, Options{OnEvent: func(e Event) {
			if e.Kind == Forgotten {
				vanished.Add(1)
			}
		}})
		take(t, g, check("b/1", "10/s"))
		goDown(t, g, f, "a")
		for range 120 { // still asked for
			time.Sleep(time.Second)
			take(t, g, check("a/1", "10/s"))
		}
		if got := len(g.Shards()); got != 2 {
			t.Fatalf("got %d shards, want 2", got)
		}
		time.Sleep(2 * time.Minute)
		if got := g.Shards(); len(got) != 1 || got[0].Name != "b" || vanished.Load() != 1 {
			t.Errorf("got %+v, %d vanished, want b only", got, vanished.Load())
		}
		calls := f.calls.Load()
		time.Sleep(time.Minute)
		if f.calls.Load() != calls {
			t.Error("a shard that vanished is still probed")
		}
	})
}
