package ledger

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet"
)

// peers are the nodes that were heard of, each with a place that records know it by. A node that has been silent for
// longest loses its place when there are too many.
type peers struct {
	mu     sync.Mutex
	byPeer map[fleet.Peer]int32
	places []peerPlace
	marked atomic.Pointer[[]peerMark]
}

// A peerMark is what digests need of a place.
type peerMark struct {
	gen uint32
	id  uint64 // of the peer; 0 if another incarnation of it has followed
}

// marks returns those of all places. They are not to be changed.
func (p *peers) marks() []peerMark {
	if m := p.marked.Load(); m != nil {
		return *m
	}
	return nil
}

// mark notes the peer at a place, and that it follows others of its name.
func (p *peers) mark(i int, of fleet.Peer) {
	marks := slices.Clone(p.marks())
	for len(marks) < len(p.places) {
		marks = append(marks, peerMark{})
	}
	for j := range p.places {
		if p.places[j].peer.Name == of.Name {
			marks[j].id = 0
		}
	}
	marks[i] = peerMark{gen: p.places[i].gen, id: peerID(of)}
	p.marked.Store(&marks)
}

type peerPlace struct {
	peer  fleet.Peer
	gen   uint32 // grows when the place gets another peer
	heard int64
	// ahead is by how much our uptime is ahead of the peer's, at the least: if news could come at once, exactly.
	ahead   time.Duration
	aheadAt time.Duration
}

// maxPlaces leaves room for those that come and go beside the MaxPeers that a record knows.
const maxPlaces = 4 * (MaxPeers + 1)

func (p *peers) init() { p.byPeer = make(map[fleet.Peer]int32) }

// place returns the place of a peer.
func (p *peers) place(of fleet.Peer, now int64) (int32, uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.byPeer[of]; ok {
		p.places[i].heard = now
		return i, p.places[i].gen
	}
	i := len(p.places)
	if i < maxPlaces {
		p.places = append(p.places, peerPlace{})
	} else {
		i = 0
		for j := range p.places {
			if p.places[j].heard < p.places[i].heard {
				i = j
			}
		}
		delete(p.byPeer, p.places[i].peer)
	}
	p.places[i] = peerPlace{peer: of, gen: p.places[i].gen + 1, heard: now, ahead: 1 << 62}
	p.byPeer[of] = int32(i)
	p.mark(i, of)
	return int32(i), p.places[i].gen
}

// lag estimates how late news is, compared with the fastest that ever came. Clocks that run at different speeds are
// allowed for.
func (p *peers) lag(place int32, ours, theirs time.Duration) time.Duration {
	const drift = 5000 // one in so many
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.places[place]
	ahead := ours - theirs
	at.ahead += (ours - at.aheadAt) / drift
	at.aheadAt = ours
	at.ahead = min(at.ahead, ahead)
	return ahead - at.ahead
}

// count returns how many peers are remembered.
func (p *peers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byPeer)
}
