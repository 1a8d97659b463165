package fleet

import (
	"slices"
	"sync/atomic"
	"time"
)

// gossipDates is what a Gossip knows of the dates of hosts. The hearing's lock guards it, but for what is atomic.
type gossipDates struct {
	all   []time.Duration
	ahead atomic.Int64 // ns: by how much the date of the fleet is ahead of this host's
	off   atomic.Int64 // how many hosts are off
	self  bool         // this host is, and that was told
}

// dateStir is how much the median must have moved to be heeded: delays are not always the same.
const dateStir = 5 * time.Millisecond

// What a host told longer than dateSpan ago is forgotten, once it has told its date so often since that one of the packets will have
// been fast: the clock of a machine that was suspended has stood still, and no packet will come as close again. A host that was
// itself stopped hears many old packets at once, so that time alone would not do.
const (
	dateSpan    = time.Minute
	enoughDates = 16
)

// dated notes what date a host told, and what ours is on arrival, and reports whether nothing was known. A packet takes time, so
// the host is ahead by more than it seems, and the fastest packet comes closest: what is known is less than what is true by the
// shortest delay there was.
func (c *correspondent) dated(theirs, ours, now time.Duration) (first bool) {
	seems := theirs - ours
	if c.aheadAt == 0 {
		c.ahead, c.aheadAt = seems, max(1, now)
		c.recent, c.recentAt, c.dates = seems, now, 1
		return true
	}
	drift := (now - c.aheadAt) / dateDrift
	c.ahead, c.recent = max(c.ahead-drift, seems), max(c.recent-drift, seems)
	c.aheadAt = max(1, now)
	if c.dates++; c.dates >= enoughDates && now-c.recentAt >= dateSpan {
		c.ahead = c.recent
		c.recent, c.recentAt, c.dates = seems, now, 1
	}
	return false
}

// agree has windows go by the date that hosts have in common now.
func (g *Gossip) agree() {
	g.hearing.mu.Lock()
	defer g.hearing.mu.Unlock()
	g.agreed()
}

// agreed is agree where the hearing is locked.
func (g *Gossip) agreed() {
	d := &g.dates
	live := g.roster.others()
	d.all = append(d.all[:0], 0)
	for _, name := range live {
		if c := g.hearing.others[name]; c != nil && c.aheadAt != 0 {
			d.all = append(d.all, c.ahead)
		}
	}
	slices.Sort(d.all)
	median := d.all[(len(d.all)-1)/2]
	if now := time.Duration(d.ahead.Load()); (median - now).Abs() >= dateStir {
		d.ahead.Store(int64(median))
		g.ledger.setAhead(median)
	}
	off := int64(0)
	for _, name := range live {
		if c := g.hearing.others[name]; c != nil && c.aheadAt != 0 {
			off += g.judgeDate(&c.off, name, c.ahead-median)
		}
	}
	d.off.Store(off + g.judgeDate(&d.self, g.self.Name, -median))
}

// judgeDate returns 1 for a host that is off by more than it may be, and tells so once.
func (g *Gossip) judgeDate(told *bool, host string, off time.Duration) int64 {
	is := isOff(off, *told)
	if is && !*told {
		g.herald.tell(HostDateOff, host, "by "+off.Round(time.Millisecond).String())
	}
	*told = is
	if is {
		return 1
	}
	return 0
}
