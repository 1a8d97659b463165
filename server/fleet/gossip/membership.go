package gossip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// maxLost is the most lost hosts that are remembered.
const maxLost = 1024

// A membership holds the other hosts. A host is live while its packets arrive, and lost when none has for some time.
type membership struct {
	forget time.Duration

	mu    sync.Mutex
	hosts map[string]*hostState

	list    atomic.Pointer[hostList]
	changed atomic.Bool // since it was last checked
}

// A hostList has sorted names of hosts.
type hostList struct{ live, lost []string }

// A hostState is how long a host was silent while this host was running.
type hostState struct {
	silentFor time.Duration
	lost      bool
}

var _ fleet.Members = (*membership)(nil)

func newMembership(forget time.Duration) *membership {
	r := &membership{forget: forget, hosts: map[string]*hostState{}}
	r.updateList()
	return r
}

// Live returns the number of live hosts, including this one.
func (r *membership) Live() int { return len(r.live()) + 1 }

// Known returns the number of hosts including lost ones that have not left.
func (r *membership) Known() int {
	list := r.list.Load()
	return len(list.live) + len(list.lost) + 1
}

// live returns the names of live hosts. They must not be changed.
func (r *membership) live() []string { return r.list.Load().live }

// lost returns the names of lost hosts. They must not be changed.
func (r *membership) lost() []string { return r.list.Load().lost }

// join adds a host, and reports whether it was lost or new.
func (r *membership) join(name string) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.hosts[name]
	if p == nil {
		p = &hostState{lost: true}
		r.hosts[name] = p
	}
	return r.markLive(p)
}

// received records a packet of a host, and reports whether the host was lost. Hosts that left or did not join do not
// count.
func (r *membership) received(name string) (wasLost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.hosts[name]
	return p != nil && r.markLive(p)
}

func (r *membership) markLive(p *hostState) (wasLost bool) {
	wasLost = p.lost
	p.silentFor, p.lost = 0, false
	if wasLost {
		r.updateList()
	}
	return wasLost
}

// remove removes a host, and reports whether it was known.
func (r *membership) remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[name] == nil {
		return false
	}
	delete(r.hosts, name)
	r.updateList()
	return true
}

// advance adds time. It returns the hosts that are lost now because they were silent for lostAfter, and those that are
// forgotten because they were silent for too long or are too many.
func (r *membership) advance(d, lostAfter time.Duration) (lost, gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	silent := 0
	for name, p := range r.hosts {
		p.silentFor += d
		switch {
		case p.lost && p.silentFor >= r.forget+lostAfter:
			gone = append(gone, name)
			delete(r.hosts, name)
			continue
		case !p.lost && p.silentFor >= lostAfter:
			p.lost = true
			lost = append(lost, name)
		}
		if p.lost {
			silent++
		}
	}
	for ; silent > maxLost; silent-- {
		name := r.longestLost()
		gone = append(gone, name)
		delete(r.hosts, name)
	}
	if lost != nil || gone != nil {
		r.updateList()
	}
	return lost, gone
}

func (r *membership) longestLost() (longest string) {
	for name, p := range r.hosts {
		if p.lost && (longest == "" || p.silentFor > r.hosts[longest].silentFor) {
			longest = name
		}
	}
	return longest
}

func (r *membership) updateList() {
	list := &hostList{}
	for name, p := range r.hosts {
		if p.lost {
			list.lost = append(list.lost, name)
		} else {
			list.live = append(list.live, name)
		}
	}
	slices.Sort(list.live)
	slices.Sort(list.lost)
	r.list.Store(list)
	r.changed.Store(true)
}
