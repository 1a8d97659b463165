package gossip

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet/internal/skew"
)

// clocks is what a Gossip knows of the dates of hosts. The hearing's lock guards it, but for what is atomic.
type clocks struct {
	all   []time.Duration
	ahead atomic.Int64 // ns: by how much the date of the fleet is ahead of this host's
	off   atomic.Int64 // how many hosts are off
	self  bool         // this host is, and that was told
}

// clockTolerance is how much the median must have moved to be heeded: delays are not always the same.
const clockTolerance = 5 * time.Millisecond

// What a host told longer than dateSpan ago is forgotten, once it has told its date so often since that one of the packets will have
// been fast: the clock of a machine that was suspended has stood still, and no packet will come as close again. A host that was
// itself stopped hears many old packets at once, so that time alone would not do.
const (
	clockMemory         = time.Minute
	enoughClockReadings = 16
)

// dated notes what date a host told, and what ours is on arrival, and reports whether nothing was known. A packet takes time, so
// the host is ahead by more than it seems, and the fastest packet comes closest: what is known is less than what is true by the
// shortest delay there was.
func (c *peerState) dated(theirs, ours, now time.Duration) (first bool) {
	seems := theirs - ours
	if c.aheadAt == 0 {
		c.ahead, c.aheadAt = seems, max(1, now)
		c.recent, c.recentAt, c.dates = seems, now, 1
		return true
	}
	drift := (now - c.aheadAt) / skew.Drift
	c.ahead, c.recent = max(c.ahead-drift, seems), max(c.recent-drift, seems)
	c.aheadAt = max(1, now)
	if c.dates++; c.dates >= enoughClockReadings && now-c.recentAt >= clockMemory {
		c.ahead = c.recent
		c.recent, c.recentAt, c.dates = seems, now, 1
	}
	return false
}

// agree has windows go by the date that hosts have in common now.
func (g *Limiter) agree() {
	g.inbox.mu.Lock()
	defer g.inbox.mu.Unlock()
	g.agreed()
}

// agreed is agree where the hearing is locked.
func (g *Limiter) agreed() {
	d := &g.clocks
	live := g.members.others()
	d.all = append(d.all[:0], 0)
	for _, name := range live {
		if c := g.inbox.others[name]; c != nil && c.aheadAt != 0 {
			d.all = append(d.all, c.ahead)
		}
	}
	slices.Sort(d.all)
	median := d.all[(len(d.all)-1)/2]
	if now := time.Duration(d.ahead.Load()); (median - now).Abs() >= clockTolerance {
		d.ahead.Store(int64(median))
		g.ledger.SetClockAhead(median)
	}
	off := int64(0)
	for _, name := range live {
		if c := g.inbox.others[name]; c != nil && c.aheadAt != 0 {
			off += g.judgeDate(&c.off, name, c.ahead-median)
		}
	}
	d.off.Store(off + g.judgeDate(&d.self, g.self.Name, -median))
}

// judgeDate returns 1 for a host that is off by more than it may be, and tells so once.
func (g *Limiter) judgeDate(told *bool, host string, off time.Duration) int64 {
	is := skew.IsOff(off, *told)
	if is && !*told {
		g.events.notify(HostClockOff, host, "by "+off.Round(time.Millisecond).String())
	}
	*told = is
	if is {
		return 1
	}
	return 0
}
