package gossip

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// clocks are the clocks of hosts. The inbox's lock guards all but the atomics.
type clocks struct {
	readings []time.Duration
	ahead    atomic.Int64 // how far the fleet's clock is ahead of this host's, in ns
	hostsOff atomic.Int64 // number of hosts whose clock is off
	selfOff  bool         // this host's clock is off, and that was reported
}

// clockTolerance is the least change of the median that counts, as delays vary.
const clockTolerance = 5 * time.Millisecond

// Readings of a host's clock older than clockMemory are forgotten once there were enough newer ones that one of their
// packets was fast: the clock of a suspended machine stands still, and no packet will come as close again. Time alone
// is not enough, as a host that was stopped itself receives many old packets at once.
const (
	clockMemory         = time.Minute
	enoughClockReadings = 16
)

// addClock adds a reading of a host's clock, and reports whether it is the first. ours is this host's clock on arrival.
// Because of the packet's delay the host is ahead by more than the difference, and the fastest packet comes closest:
// the estimate is too low by the shortest delay.
func (c *peerState) addClock(theirs, ours, now time.Duration) (first bool) {
	seems := theirs - ours
	if c.clock.aheadAt == 0 {
		c.clock.ahead, c.clock.aheadAt = seems, max(1, now)
		c.clock.recent, c.clock.recentSince, c.clock.readings = seems, now, 1
		return true
	}
	drift := (now - c.clock.aheadAt) / skew.Drift
	c.clock.ahead, c.clock.recent = max(c.clock.ahead-drift, seems), max(c.clock.recent-drift, seems)
	c.clock.aheadAt = max(1, now)
	if c.clock.readings++; c.clock.readings >= enoughClockReadings && now-c.clock.recentSince >= clockMemory {
		c.clock.ahead = c.clock.recent
		c.clock.recent, c.clock.recentSince, c.clock.readings = seems, now, 1
	}
	return false
}

// updateClock makes windows use the present median of the hosts' clocks.
func (g *Limiter) updateClock() {
	g.inbox.mu.Lock()
	defer g.inbox.mu.Unlock()
	g.updateClockLocked()
}

// updateClockLocked is updateClock with the inbox locked.
func (g *Limiter) updateClockLocked() {
	d := &g.clocks
	live := g.members.live()
	d.readings = append(d.readings[:0], 0)
	for _, name := range live {
		if c := g.inbox.peers[name]; c != nil && c.clock.aheadAt != 0 {
			d.readings = append(d.readings, c.clock.ahead)
		}
	}
	slices.Sort(d.readings)
	median := d.readings[(len(d.readings)-1)/2]
	if now := time.Duration(d.ahead.Load()); (median - now).Abs() >= clockTolerance {
		d.ahead.Store(int64(median))
		g.ledger.SetClockAhead(median)
	}
	off := int64(0)
	for _, name := range live {
		if c := g.inbox.peers[name]; c != nil && c.clock.aheadAt != 0 {
			off += g.checkClock(&c.clock.off, name, c.clock.ahead-median)
		}
	}
	d.hostsOff.Store(off + g.checkClock(&d.selfOff, g.self.Name, -median))
}

// checkClock returns 1 for a host whose clock is off, and reports that once.
func (g *Limiter) checkClock(reported *bool, host string, off time.Duration) int64 {
	isOff := skew.IsOff(off, *reported)
	if isOff && !*reported {
		g.events.notify(HostClockOff, host, "by "+off.Round(time.Millisecond).String())
	}
	*reported = isOff
	if isOff {
		return 1
	}
	return 0
}
