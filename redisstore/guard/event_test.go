package guard

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventsReportEveryChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		var mu sync.Mutex
		var events []Event
		g := newGuard(t, shardedFake{f}, Options{OnEvent: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}})
		take(t, g, check("a/1", "10/s"))
		goDown(t, g, f, "a")
		for range 7 {
			take(t, g, check("a/1", "10/s"))
		}
		time.Sleep(3 * time.Second)
		f.breaks("a", fault{})
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := []EventKind{Failing, Opened, StillDown, Recovered}
		if len(events) != len(want) {
			t.Fatalf("got %d events, want %d: %+v", len(events), len(want), events)
		}
		for i, e := range events {
			if e.Kind != want[i] || e.Shard != "a" || e.At.IsZero() || e.NeverResponded || (e.Err == nil) != (e.Kind == Recovered) {
				t.Errorf("event %d: got %+v, want %v of a", i, e, want[i])
			}
		}
		if back := events[3]; back.Degraded != 8 || back.Down < 3*time.Second || back.Down > 4*time.Second { // and the one that opened it
			t.Errorf("got %+v, want 8 degraded in 3 to 4 s", back)
		}
	})
}

func TestSlowOnEventDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		block := make(chan struct{})
		g := newGuard(t, shardedFake{f}, Options{OnEvent: func(Event) { <-block }})
		const shards = 100 // of two events each
		for i := range shards {
			if got := took(func() { goDown(t, g, f, fmt.Sprint("s", i)) }); got != 0 {
				t.Fatalf("took %v, want no time", got)
			}
		}
		if got, want := g.Stats().EventsDropped, int64(2*shards-maxEvents-1); got < want-1 || got > want+1 {
			t.Errorf("%d events dropped, want %d", got, want)
		}
		close(block)
	})
}

func TestEventsAreLoggedByDefault(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g, err := New(f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		goDown(t, g, f, "a")
		f.breaks("a", fault{})
		time.Sleep(time.Second)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, want := range []string{
		"level=WARN", "store is down, policies decide", "connection refused", "never_responded=true", "decisions are exact again", "degraded=1",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}
