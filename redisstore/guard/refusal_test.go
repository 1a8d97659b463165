package guard

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// A store that works and refuses is told of when that begins and when it ends, and the state of its shard says so for
// as long as it lasts, whether anybody asks or not.
func TestRefusalsSendOneEventAndStayInShards(t *testing.T) {
	for _, probed := range []bool{true, false} {
		t.Run(fmt.Sprint("probed: ", probed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { testRefusals(t, probed) })
		})
	}
}

func testRefusals(t *testing.T, probed bool) {
	f := newFake(t, nil)
	var inner headgate.Limiter = f
	if probed {
		inner = probedFake{fakeStore: f, probes: new(atomic.Int64)}
	}
	var mu sync.Mutex
	var events []Event
	g := newGuard(t, inner, Options{OnEvent: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}})
	told := func(want ...EventKind) {
		t.Helper()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		var got []EventKind
		for _, e := range events {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got events %q, want %q", got, want)
		}
	}
	refuses := func(want error) {
		t.Helper()
		if s := g.Shards()[0]; s.Open || !errors.Is(s.Refuses, want) {
			t.Fatalf("got %+v, want a closed circuit and refusals: %v", s, want)
		}
	}
	take(t, g, check("a", "10/s"))
	refuses(nil)
	for _, shard := range []string{"a", "b", ""} {
		f.breaks(shard, fault{err: headgate.ErrFull})
	}
	const asked = 30
	for range asked {
		if d := take(t, g, check("b", "10/s")); !d.Degraded {
			t.Fatalf("got %+v, want it degraded", d)
		}
		time.Sleep(100 * time.Millisecond)
	}
	told(Refusing)
	refuses(headgate.ErrFull)
	time.Sleep(time.Minute) // in which nobody asks
	told(Refusing)
	refuses(headgate.ErrFull)
	for _, shard := range []string{"a", "b", ""} {
		f.breaks(shard, fault{})
	}
	time.Sleep(refusalTime + 2*refusalInterval)
	told(Refusing, Deciding)
	refuses(nil)
	if e := events[1]; e.Degraded != asked || e.Down < time.Minute || e.Err != nil {
		t.Errorf("got %+v, want %d refusals in more than a minute", e, asked)
	}
	if d := take(t, g, check("b", "10/s")); d.Degraded {
		t.Errorf("got %+v when it refuses nothing any more", d)
	}
}
