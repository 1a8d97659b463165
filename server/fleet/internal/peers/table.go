package peers

import (
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// A Table has the known peers. Each peer has a slot, whose index records use to refer to the peer. If there are too
// many peers, a new peer gets the slot of the peer whose latest update is the oldest.
type Table struct {
	// KeepEnded keeps the IDs of incarnations that have ended. An exchange stores their notes for some time, so they may
	// be received after notes of the next incarnation. KeepEnded must not change after the first call of Slot.
	KeepEnded bool

	mu     sync.Mutex
	slotOf map[fleet.Peer]int32
	slots  []peerSlot
	ids    atomic.Pointer[[]ID]
}

// An ID identifies the peer in a slot. Digests are computed from IDs.
type ID struct {
	Gen  uint32
	Hash uint64 // hash of the peer; 0 if a newer incarnation has a slot and KeepEnded is not set
}

// IDs returns the IDs of all slots. They must not be changed.
func (p *Table) IDs() []ID {
	if ids := p.ids.Load(); ids != nil {
		return *ids
	}
	return nil
}

// setID sets the peer of a slot, and clears other incarnations of it unless they are kept.
func (p *Table) setID(i int, peer fleet.Peer) {
	ids := slices.Clone(p.IDs())
	for len(ids) < len(p.slots) {
		ids = append(ids, ID{})
	}
	for j := range p.slots {
		if p.slots[j].peer.Name == peer.Name && !p.KeepEnded {
			ids[j].Hash = 0
		}
	}
	ids[i] = ID{Gen: p.slots[i].gen, Hash: Hash(peer)}
	p.ids.Store(&ids)
}

type peerSlot struct {
	peer      fleet.Peer
	gen       uint32 // generation: increases when the slot gets another peer
	updatedAt int64
	// ahead is the smallest difference between this node's uptime and the uptime in an update of the peer. An update
	// without delay has exactly this difference.
	ahead   time.Duration
	aheadAt time.Duration
}

// MaxSlots is the maximum number of peers. It is larger than the maximum number of peers in a record of the ledger,
// because nodes join and leave.
const MaxSlots = 1024

// Slot returns the slot of a peer and its generation.
func (p *Table) Slot(peer fleet.Peer, now int64) (int32, uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.slotOf[peer]; ok {
		p.slots[i].updatedAt = now
		return i, p.slots[i].gen
	}
	if p.slotOf == nil {
		p.slotOf = make(map[fleet.Peer]int32)
	}
	i := len(p.slots)
	if i < MaxSlots {
		p.slots = append(p.slots, peerSlot{})
	} else {
		i = 0
		for j := range p.slots {
			if p.slots[j].updatedAt < p.slots[i].updatedAt {
				i = j
			}
		}
		delete(p.slotOf, p.slots[i].peer)
	}
	p.slots[i] = peerSlot{peer: peer, gen: p.slots[i].gen + 1, updatedAt: now, ahead: 1 << 62}
	p.slotOf[peer] = int32(i)
	p.setID(i, peer)
	return int32(i), p.slots[i].gen
}

// Lag estimates the delay of an update, compared with the fastest update of the same peer. ours is this node's uptime
// when the update arrived, and theirs is the peer's uptime when it was sent. Clocks may have slightly different speeds.
func (p *Table) Lag(slot int32, ours, theirs time.Duration) time.Duration {
	const drift = 5000 // clocks drift apart by at most one part in 5000
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := &p.slots[slot]
	ahead := ours - theirs
	peer.ahead = min(peer.ahead+(ours-peer.aheadAt)/drift, ahead)
	peer.aheadAt = ours
	return ahead - peer.ahead
}

// Count returns the number of known peers.
func (p *Table) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slotOf)
}

// Hash returns a hash of a peer. It is not 0.
func Hash(p fleet.Peer) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.Name)) // does not fail
	return (h.Sum64() ^ p.Incarnation) | 1
}
