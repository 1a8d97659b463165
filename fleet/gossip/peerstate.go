package gossip

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/ledger"
)

const (
	// maxCorrespondents is how many hosts are listened to. Beyond it, who has been silent for longest is forgotten.
	maxCorrespondents = 256
	// seenNumbers is how many packets back one can come again, by way of others, and be known for it.
	seenNumbers = 1024
	nickPage    = 256
	// heardKeys is how many keys are remembered that a host has spoken of.
	heardKeys = 1024
)

// A meaning is what a nickname stands for.
type meaning struct {
	nick           uint64
	key            ledger.Key
	limit          *headgate.Limit
	start          time.Duration
	window, offset int64
	reset          bool
}

// A peerState is another host as far as its packets go.
type peerState struct {
	peer    fleet.Peer
	retired []uint64 // incarnations of the same name that another has followed
	heard   time.Duration
	newest  uint64
	seen    [seenNumbers / 64]uint64
	pages   [nickSpan / nickPage]*[nickPage]meaning
	latest  time.Duration          // uptime of the newest packet
	heardOf *[heardKeys]ledger.Key // of late, each at a place that its hash says; nil before the first
	ahead   time.Duration          // its date, of ours; see dated
	aheadAt time.Duration          // by the clock; 0 if it is not known
	off     bool                   // it is off, and that was told
	// recent is what ahead would be if nothing had been heard before recentAt, and dates how many were heard since.
	recent, recentAt time.Duration
	dates            int
}

// over reports whether another incarnation has followed that one, whose packets were on their way for long then.
func (c *peerState) over(incarnation uint64) bool { return slices.Contains(c.retired, incarnation) }

// begin is called for a packet of an incarnation that is listened to. If that is another than before, it begins again.
func (c *peerState) begin(incarnation uint64) {
	if incarnation == c.peer.Incarnation {
		return
	}
	// It may be one that was followed by another of its name, and is the only one now.
	c.retired = slices.DeleteFunc(c.retired, func(old uint64) bool { return old == incarnation })
	c.retired = append(c.retired, c.peer.Incarnation)
	if len(c.retired) > 4 {
		c.retired = slices.Delete(c.retired, 0, 1)
	}
	*c = peerState{peer: fleet.Peer{Name: c.peer.Name, Incarnation: incarnation}, retired: c.retired, heard: c.heard}
}

// again notes a packet's number and reports whether it came before, or so long ago that nobody can tell.
func (c *peerState) again(number uint64) bool {
	if number > c.newest {
		for n := max(c.newest+1, number-min(number, seenNumbers-1)); n <= number; n++ {
			c.seen[n%seenNumbers/64] &^= 1 << (n % 64)
		}
		c.newest = number
	} else if c.newest-number >= seenNumbers {
		return true
	}
	word, bit := &c.seen[number%seenNumbers/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	return false
}

// learn remembers what a nickname means.
func (c *peerState) learn(t *packetTally, limit *headgate.Limit) {
	page := &c.pages[t.nick%nickSpan/nickPage]
	if *page == nil {
		*page = new([nickPage]meaning)
	}
	m := &(*page)[t.nick%nickPage]
	if t.nick < m.nick {
		return // an old packet
	}
	*m = meaning{
		nick: t.nick, key: t.tally.Key, limit: limit,
		start: t.tally.Start, window: t.tally.Window, offset: t.tally.Offset, reset: t.tally.Reset,
	}
}

// understand fills in what a short tally leaves out, if it is known.
func (c *peerState) understand(t *packetTally) bool {
	page := c.pages[t.nick%nickSpan/nickPage]
	if page == nil {
		return false
	}
	m := &page[t.nick%nickPage]
	if m.nick != t.nick {
		return false
	}
	t.tally.Key, t.tally.Limit = m.key, *m.limit
	t.tally.Start, t.tally.Window, t.tally.Offset, t.tally.Reset = m.start, m.window, m.offset, m.reset
	return true
}

// A glossary keeps limits that nicknames mean once for all of them.
type glossary map[headgate.Limit]*headgate.Limit

// maxGlossary is after how many limits it begins again. Those that are in use stay in memory until then.
const maxGlossary = 1024

func (g glossary) of(l *headgate.Limit) *headgate.Limit {
	if kept := g[*l]; kept != nil {
		return kept
	}
	if len(g) >= maxGlossary {
		clear(g)
	}
	kept := *l
	g[kept] = &kept
	return &kept
}

// peerStates are the hosts that packets have come from, by name.
type peerStates map[string]*peerState

// get returns the one of that name, and whether it is new.
func (cs peerStates) get(name []byte, incarnation uint64, now time.Duration) (c *peerState, first bool) {
	if c := cs[string(name)]; c != nil {
		return c, false
	}
	if len(cs) >= maxCorrespondents {
		var oldest *peerState
		for _, c := range cs {
			if oldest == nil || c.heard < oldest.heard {
				oldest = c
			}
		}
		delete(cs, oldest.peer.Name)
	}
	c = &peerState{peer: fleet.Peer{Name: string(name), Incarnation: incarnation}, heard: now}
	cs[c.peer.Name] = c
	return c, true
}
