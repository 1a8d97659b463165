package gossip

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// clocks compares the clocks of hosts. The inbox's lock guards all fields except the atomics.
type clocks struct {
	readings []time.Duration // reused by updateClockLocked
	ahead    atomic.Int64    // how far the fleet's clock is ahead of this host's, in ns
	hostsOff atomic.Int64    // number of hosts whose clock differs from the fleet's by more than fleet.MaxClockSkew
	selfOff  bool            // this host's clock differs by more than that, which was reported
}

// clockTolerance is the smallest change of the median that changes the fleet's clock. Smaller changes are caused by
// varying network delays.
const clockTolerance = 5 * time.Millisecond

// Readings of a host's clock that are older than clockMemory are dropped when there are at least enoughClockReadings
// newer readings. Among so many packets, one was probably fast. If old readings were never dropped, the estimate would
// stay wrong after a machine was suspended, because its clock stands still meanwhile. The age of readings alone is not
// a sufficient condition: a host that was stopped itself receives many old packets at once.
const (
	clockMemory         = time.Minute
	enoughClockReadings = 16
)

// addClock adds a reading of a peer's clock, and reports whether it is the first. theirs is the peer's clock when it
// sent the packet, and ours is this host's clock when the packet arrived. The difference is too low by the delay of the
// packet, so the highest difference is the best estimate.
func (peer *peerState) addClock(theirs, ours, now time.Duration) (first bool) {
	measured := theirs - ours
	if peer.clock.aheadAt == 0 {
		peer.clock.ahead, peer.clock.aheadAt = measured, max(1, now)
		peer.clock.recent, peer.clock.recentSince, peer.clock.readings = measured, now, 1
		return true
	}
	drift := (now - peer.clock.aheadAt) / skew.Drift
	peer.clock.ahead, peer.clock.recent = max(peer.clock.ahead-drift, measured), max(peer.clock.recent-drift, measured)
	peer.clock.aheadAt = max(1, now)
	if peer.clock.readings++; peer.clock.readings >= enoughClockReadings && now-peer.clock.recentSince >= clockMemory {
		peer.clock.ahead = peer.clock.recent
		peer.clock.recent, peer.clock.recentSince, peer.clock.readings = measured, now, 1
	}
	return false
}

// updateClock sets the fleet's clock, which windows use, to the current median of the hosts' clocks.
func (g *Limiter) updateClock() {
	g.inbox.mu.Lock()
	defer g.inbox.mu.Unlock()
	g.updateClockLocked()
}

// updateClockLocked is updateClock with the inbox locked.
func (g *Limiter) updateClockLocked() {
	c := &g.clocks
	live := g.members.live()
	c.readings = append(c.readings[:0], 0)
	for _, name := range live {
		if peer := g.inbox.peers[name]; peer != nil && peer.clock.aheadAt != 0 {
			c.readings = append(c.readings, peer.clock.ahead)
		}
	}
	slices.Sort(c.readings)
	median := c.readings[(len(c.readings)-1)/2]
	if now := time.Duration(c.ahead.Load()); (median - now).Abs() >= clockTolerance {
		c.ahead.Store(int64(median))
		g.ledger.SetClockAhead(median)
	}
	off := int64(0)
	for _, name := range live {
		if peer := g.inbox.peers[name]; peer != nil && peer.clock.aheadAt != 0 {
			off += g.checkClock(&peer.clock.off, name, peer.clock.ahead-median)
		}
	}
	c.hostsOff.Store(off + g.checkClock(&c.selfOff, g.self.Name, -median))
}

// checkClock returns 1 if the clock of a host is off by too much, otherwise 0. It reports this once.
func (g *Limiter) checkClock(reported *bool, host string, off time.Duration) int64 {
	tooLarge := skew.IsTooLarge(off, *reported)
	if tooLarge && !*reported {
		g.events.notify(HostClockOff, host, "by "+off.Round(time.Millisecond).String())
	}
	*reported = tooLarge
	if tooLarge {
		return 1
	}
	return 0
}
