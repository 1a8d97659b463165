package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// testEpoch is a full hour, so that windows of tests begin at 0.
var testEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A handClock is set by hand. It has no timers, which a ledger without lookups does not use.
type handClock struct {
	clock.Clock
	now atomic.Int64
}

func (c *handClock) Now() time.Time                  { return testEpoch.Add(time.Duration(c.now.Load())) }
func (c *handClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c *handClock) Advance(d time.Duration)         { c.now.Add(int64(d)) }

// A host is a node of a test.
type host struct {
	testing.TB
	*Ledger
	fleet.Peer
	clock *handClock
}

// hosts returns nodes that share a clock and a secret. Whether they ask is as Async and Gossip have it.
func hosts(t testing.TB, n int, asks bool, change func(*fleet.LedgerOptions)) (*handClock, []*host) {
	t.Helper()
	clock := &handClock{}
	var all []*host
	for i := range n {
		self := fleet.Peer{Name: fmt.Sprint("host ", i), Incarnation: 1}
		all = append(all, newHost(t, clock, self, asks, change))
	}
	return clock, all
}

func newHost(t testing.TB, clock *handClock, self fleet.Peer, asks bool, change func(*fleet.LedgerOptions)) *host {
	t.Helper()
	o := fleet.LedgerOptions{
		Secret: fleettest.Secret, Clock: clock,
		OnRefused: func(from fleet.Peer, why string) { t.Errorf("%s refused a tally of %v: %s", self.Name, from, why) },
	}
	if change != nil {
		change(&o)
	}
	l, err := New(o, self, asks)
	if err != nil {
		t.Fatal(err)
	}
	return &host{TB: t, Ledger: l, Peer: self, clock: clock}
}

// take takes units one by one and returns how many passed.
func (h *host) take(key string, l headgate.Limit, n int) (passed int) {
	h.Helper()
	for range n {
		d, err := h.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: 1})
		if err != nil {
			h.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

// remaining looks at a key.
func (h *host) remaining(key string, l headgate.Limit) int64 {
	h.Helper()
	d, err := h.Peek(context.Background(), headgate.Check{Key: key, Limit: l})
	if err != nil {
		h.Fatal(err)
	}
	return d.Remaining
}

// share tells all what each has to tell.
func shareAll(all ...*host) {
	type letter struct {
		from    *host
		uptime  time.Duration
		tallies []tally.Tally
	}
	var letters []letter
	for _, h := range all {
		letters = append(letters, letter{h, h.Uptime(), h.Changes(nil, 1<<20)})
	}
	for _, l := range letters {
		for _, h := range all {
			if h != l.from {
				h.Apply(l.from.Peer, l.uptime, l.tallies)
			}
		}
	}
}

// wantRemaining checks what remains on all hosts.
func wantRemaining(t testing.TB, when, key string, l headgate.Limit, want int64, all ...*host) {
	t.Helper()
	for _, h := range all {
		if got := h.remaining(key, l); got != want {
			t.Errorf("%s: remaining on %s: got %d, want %d", when, h.Peer.Name, got, want)
		}
	}
}
