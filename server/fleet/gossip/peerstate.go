package gossip

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

const (
	// maxPeers is the most hosts that are accepted. Beyond it, the one that was silent for longest is forgotten.
	maxPeers = 256
	// numberWindow is how many packets back a duplicate is recognized.
	numberWindow = 1024
	aliasPage    = 256
	// maxRecentKeys is the number of keys of a host that are remembered.
	maxRecentKeys = 1024
)

// An aliasMeaning is the content of a tally that an alias stands for.
type aliasMeaning struct {
	alias          uint64
	key            ledger.Key
	limit          *headgate.Limit
	start          time.Duration
	window, offset int64
	reset          bool
}

// A peerState is what is known of another host from its packets.
type peerState struct {
	peer         fleet.Peer
	former       []uint64 // earlier incarnations of the same name
	receivedAt   time.Duration
	newestNumber uint64
	received     [numberWindow / 64]uint64 // numbers of packets, one bit each
	aliases      [aliasSpan / aliasPage]*[aliasPage]aliasMeaning
	uptime       time.Duration              // of the newest packet
	recentKeys   *[maxRecentKeys]ledger.Key // each at the index that its hash gives; nil before the first
	clock        peerClock
}

// A peerClock estimates how far a host's clock is ahead of this one's.
type peerClock struct {
	ahead   time.Duration
	aheadAt time.Duration // by the clock; 0 if it is not known
	// recent is the estimate from readings since recentSince only.
	recent, recentSince time.Duration
	readings            int  // since recentSince
	off                 bool // it differs by more than fleet.MaxClockSkew, and that was reported
}

// isFormer reports whether another incarnation has replaced this one, whose packets are late then.
func (c *peerState) isFormer(incarnation uint64) bool { return slices.Contains(c.former, incarnation) }

// setIncarnation sets the incarnation of the host. If it is new, the state starts again.
func (c *peerState) setIncarnation(incarnation uint64) {
	if incarnation == c.peer.Incarnation {
		return
	}
	// It may be a former one that is the only one now.
	c.former = slices.DeleteFunc(c.former, func(old uint64) bool { return old == incarnation })
	c.former = append(c.former, c.peer.Incarnation)
	if len(c.former) > 4 {
		c.former = slices.Delete(c.former, 0, 1)
	}
	c.peer.Incarnation = incarnation
	*c = peerState{peer: c.peer, former: c.former, receivedAt: c.receivedAt}
}

// isDuplicate records a packet's number and reports whether it was received before, or is too old to know.
func (c *peerState) isDuplicate(number uint64) bool {
	if number > c.newestNumber {
		for n := max(c.newestNumber+1, number-min(number, numberWindow-1)); n <= number; n++ {
			c.received[n%numberWindow/64] &^= 1 << (n % 64)
		}
		c.newestNumber = number
	} else if c.newestNumber-number >= numberWindow {
		return true
	}
	word, bit := &c.received[number%numberWindow/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	return false
}

// addAlias stores the meaning of an alias.
func (c *peerState) addAlias(t *packetTally, limit *headgate.Limit) {
	page := &c.aliases[t.alias%aliasSpan/aliasPage]
	if *page == nil {
		*page = new([aliasPage]aliasMeaning)
	}
	m := &(*page)[t.alias%aliasPage]
	if t.alias < m.alias {
		return // an old packet
	}
	*m = aliasMeaning{
		alias: t.alias, key: t.tally.Key, limit: limit,
		start: t.tally.Start, window: t.tally.Window, offset: t.tally.Offset, reset: t.tally.Reset,
	}
}

// resolveAlias completes a short tally, if its alias is known.
func (c *peerState) resolveAlias(t *packetTally) bool {
	page := c.aliases[t.alias%aliasSpan/aliasPage]
	if page == nil {
		return false
	}
	m := &page[t.alias%aliasPage]
	if m.alias != t.alias {
		return false
	}
	t.tally.Key, t.tally.Limit = m.key, *m.limit
	t.tally.Start, t.tally.Window, t.tally.Offset, t.tally.Reset = m.start, m.window, m.offset, m.reset
	return true
}

// A limitTable stores each limit of aliases once.
type limitTable map[headgate.Limit]*headgate.Limit

// maxLimitTable is the size at which the table starts again. Limits in use stay in memory until then.
const maxLimitTable = 1024

func (g limitTable) get(l *headgate.Limit) *headgate.Limit {
	if stored := g[*l]; stored != nil {
		return stored
	}
	if len(g) >= maxLimitTable {
		clear(g)
	}
	stored := *l
	g[stored] = &stored
	return &stored
}

// peerStates are the hosts that sent packets, by name.
type peerStates map[string]*peerState

// get returns the host of that name, and whether it is new.
func (cs peerStates) get(name []byte, incarnation uint64, now time.Duration) (c *peerState, first bool) {
	if c := cs[string(name)]; c != nil {
		return c, false
	}
	if len(cs) >= maxPeers {
		var oldest *peerState
		for _, c := range cs {
			if oldest == nil || c.receivedAt < oldest.receivedAt {
				oldest = c
			}
		}
		delete(cs, oldest.peer.Name)
	}
	c = &peerState{peer: fleet.Peer{Name: string(name), Incarnation: incarnation}, receivedAt: now}
	cs[c.peer.Name] = c
	return c, true
}
