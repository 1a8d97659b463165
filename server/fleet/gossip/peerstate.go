package gossip

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

const (
	// maxPeers is the maximum number of hosts whose state is kept. A further host replaces the host that was silent for
	// the longest time.
	maxPeers = 256
	// numberWindow is the number of latest packets of a host among which duplicates are recognized.
	numberWindow = 1024
	// aliasPage is the number of aliases for which memory is allocated at once.
	aliasPage = 256
	// maxRecentKeys is the number of keys of a host that are remembered.
	maxRecentKeys = 1024
)

// An aliasMeaning has the fields of a tally that an alias replaces.
type aliasMeaning struct {
	alias          uint64
	key            tally.Key
	limit          *headgate.Limit
	start          time.Duration
	window, offset int64
	reset          bool
}

// A peerState is the state of another host, as learned from its packets.
type peerState struct {
	peer         fleet.Peer
	former       []uint64 // earlier incarnations of the host
	receivedAt   time.Duration
	newestNumber uint64
	received     [numberWindow / 64]uint64 // numbers of packets, one bit each
	aliases      [aliasSpan / aliasPage]*[aliasPage]aliasMeaning
	uptime       time.Duration             // uptime of the host when it sent its newest packet
	recentKeys   *[maxRecentKeys]tally.Key // indexed by bits of the key; nil before the first key
	clock        peerClock
}

// A peerClock estimates how far a host's clock is ahead of this host's clock.
type peerClock struct {
	ahead   time.Duration
	aheadAt time.Duration // when ahead was estimated; 0 if it is unknown
	// recent is an estimate that uses only the readings since recentSince.
	recent, recentSince time.Duration
	readings            int  // number of readings since recentSince
	off                 bool // the clock differs by more than fleet.MaxClockSkew, and that was reported
}

// isFormer reports whether another incarnation has replaced the given one, so that packets of the given one are
// outdated.
func (peer *peerState) isFormer(incarnation uint64) bool {
	return slices.Contains(peer.former, incarnation)
}

// setIncarnation sets the incarnation of the host. If it has changed, the other state is cleared.
func (peer *peerState) setIncarnation(incarnation uint64) {
	if incarnation == peer.peer.Incarnation {
		return
	}
	// If two hosts have had this name and one has left, the other's incarnation may be a former one.
	peer.former = slices.DeleteFunc(peer.former, func(old uint64) bool { return old == incarnation })
	peer.former = append(peer.former, peer.peer.Incarnation)
	if len(peer.former) > 4 {
		peer.former = slices.Delete(peer.former, 0, 1)
	}
	peer.peer.Incarnation = incarnation
	*peer = peerState{peer: peer.peer, former: peer.former, receivedAt: peer.receivedAt}
}

// isDuplicate records the number of a packet. It reports whether the packet was received before. For very old packets,
// this is unknown, and it returns true.
func (peer *peerState) isDuplicate(number uint64) bool {
	if number > peer.newestNumber {
		// The bits of the numbers after newestNumber still have the values of older numbers.
		oldest := number - min(number, numberWindow-1)
		for n := max(peer.newestNumber+1, oldest); n <= number; n++ {
			peer.received[n%numberWindow/64] &^= 1 << (n % 64)
		}
		peer.newestNumber = number
	} else if peer.newestNumber-number >= numberWindow {
		return true
	}
	word, bit := &peer.received[number%numberWindow/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	return false
}

// addAlias stores the meaning of an alias.
func (peer *peerState) addAlias(t *packetTally, limit *headgate.Limit) {
	page := &peer.aliases[t.alias%aliasSpan/aliasPage]
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

// resolveAlias sets the fields of a short tally that its alias replaces. It returns false if the alias is unknown.
func (peer *peerState) resolveAlias(t *packetTally) bool {
	page := peer.aliases[t.alias%aliasSpan/aliasPage]
	if page == nil {
		return false
	}
	m := &page[t.alias%aliasPage]
	if m.alias != t.alias {
		return false
	}
	t.tally.Key, t.tally.Limit = m.key, *m.limit
	t.tally.Start, t.tally.Window, t.tally.Offset, t.tally.Reset = m.start, m.window, m.offset, m.reset
	unpackEarlier(&t.tally)
	return true
}

// A limitTable has one copy of each limit, which all aliases with this limit share.
type limitTable map[headgate.Limit]*headgate.Limit

// maxLimitTable is the size at which the table is cleared. Aliases keep the limits that they use.
const maxLimitTable = 1024

func (t limitTable) get(l *headgate.Limit) *headgate.Limit {
	if stored := t[*l]; stored != nil {
		return stored
	}
	if len(t) >= maxLimitTable {
		clear(t)
	}
	stored := *l
	t[stored] = &stored
	return &stored
}

// peerStates has the states of hosts that have sent packets, by name.
type peerStates map[string]*peerState

// get returns the state of the host with a name, and whether the state is new.
func (states peerStates) get(name []byte, incarnation uint64, now time.Duration) (peer *peerState, first bool) {
	if peer := states[string(name)]; peer != nil {
		return peer, false
	}
	if len(states) >= maxPeers {
		var oldest *peerState
		for _, peer := range states {
			if oldest == nil || peer.receivedAt < oldest.receivedAt {
				oldest = peer
			}
		}
		delete(states, oldest.peer.Name)
	}
	peer = &peerState{peer: fleet.Peer{Name: string(name), Incarnation: incarnation}, receivedAt: now}
	states[peer.peer.Name] = peer
	return peer, true
}
