package ledger

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet"
)

// peers are the known peers. Each has a slot by which records refer to it. If there are too many, the one that was
// silent for longest loses its slot.
type peers struct {
	mu     sync.Mutex
	slotOf map[fleet.Peer]int32
	slots  []peerSlot
	ids    atomic.Pointer[[]slotID]
}

// A slotID is what digests need of a slot.
type slotID struct {
	gen uint32
	id  uint64 // of the peer; 0 if a newer incarnation has a slot
}

// slotIDs returns the IDs of all slots. They must not be changed.
func (p *peers) slotIDs() []slotID {
	if m := p.ids.Load(); m != nil {
		return *m
	}
	return nil
}

// setID sets the peer of a slot, and clears older incarnations of it.
func (p *peers) setID(i int, of fleet.Peer) {
	marks := slices.Clone(p.slotIDs())
	for len(marks) < len(p.slots) {
		marks = append(marks, slotID{})
	}
	for j := range p.slots {
		if p.slots[j].peer.Name == of.Name {
			marks[j].id = 0
		}
	}
	marks[i] = slotID{gen: p.slots[i].gen, id: peerID(of)}
	p.ids.Store(&marks)
}

type peerSlot struct {
	peer      fleet.Peer
	gen       uint32 // grows when the slot gets another peer
	updatedAt int64
	// ahead is the smallest difference seen between our uptime and the peer's: the exact one if an update arrived without
	// delay.
	ahead   time.Duration
	aheadAt time.Duration
}

// maxSlots leaves room for nodes that come and go beside the MaxPeers of a record.
const maxSlots = 4 * (MaxPeers + 1)

func (p *peers) init() { p.slotOf = make(map[fleet.Peer]int32) }

// slot returns the slot of a peer and its generation.
func (p *peers) slot(of fleet.Peer, now int64) (int32, uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.slotOf[of]; ok {
		p.slots[i].updatedAt = now
		return i, p.slots[i].gen
	}
	i := len(p.slots)
	if i < maxSlots {
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
	p.slots[i] = peerSlot{peer: of, gen: p.slots[i].gen + 1, updatedAt: now, ahead: 1 << 62}
	p.slotOf[of] = int32(i)
	p.setID(i, of)
	return int32(i), p.slots[i].gen
}

// lag estimates how late an update is, compared with the fastest one of its peer. It allows for clocks of different
// speed.
func (p *peers) lag(slot int32, ours, theirs time.Duration) time.Duration {
	const drift = 5000 // one part in so many
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.slots[slot]
	ahead := ours - theirs
	at.ahead += (ours - at.aheadAt) / drift
	at.aheadAt = ours
	at.ahead = min(at.ahead, ahead)
	return ahead - at.ahead
}

// count returns the number of known peers.
func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slotOf)
}
