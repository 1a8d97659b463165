package gossip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet"
)

// maxSilent is how many hosts that have fallen silent are remembered.
const maxSilent = 1024

// A membership knows the other hosts. A host is live while its packets come, and lost when none came for some time.
type membership struct {
	forget time.Duration

	mu    sync.Mutex
	hosts map[string]*presence

	list    atomic.Pointer[hostList]
	changed atomic.Bool // the list was, since that was last looked at
}

// A hostList is the names of hosts, sorted.
type hostList struct{ live, silent []string }

// A presence is how long ago a host was heard, while this host did not stand still itself.
type presence struct {
	quiet time.Duration
	lost  bool
}

var _ fleet.Members = (*membership)(nil)

func newMembership(forget time.Duration) *membership {
	r := &membership{forget: forget, hosts: map[string]*presence{}}
	r.count()
	return r
}

// Live returns how many hosts are heard, this one included.
func (r *membership) Live() int { return len(r.others()) + 1 }

// Known returns how many hosts there are, those included that have fallen silent without a farewell.
func (r *membership) Known() int {
	list := r.list.Load()
	return len(list.live) + len(list.silent) + 1
}

// others returns the names of those that are live. They must not be changed.
func (r *membership) others() []string { return r.list.Load().live }

// missing returns the names of those that have fallen silent. They must not be changed.
func (r *membership) missing() []string { return r.list.Load().silent }

// alive notes that a host is there, and reports whether it was not.
func (r *membership) alive(name string) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.hosts[name]
	if p == nil {
		p = &presence{lost: true}
		r.hosts[name] = p
	}
	return r.revive(p)
}

// heard notes that a packet of a host came, and reports whether the host was lost. Packets of hosts that have left, or did not
// join, do not count.
func (r *membership) heard(name string) (wasLost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.hosts[name]
	return p != nil && r.revive(p)
}

func (r *membership) revive(p *presence) (wasLost bool) {
	wasLost = p.lost
	p.quiet, p.lost = 0, false
	if wasLost {
		r.count()
	}
	return wasLost
}

// left drops a host that is not missed, and reports whether it was known.
func (r *membership) left(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[name] == nil {
		return false
	}
	delete(r.hosts, name)
	r.count()
	return true
}

// pass lets time pass. It returns the hosts that are lost now because they were silent for as long as lostAfter, and those that are
// gone because they were silent for too long, or are too many.
func (r *membership) pass(d, lostAfter time.Duration) (lost, gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	silent := 0
	for name, p := range r.hosts {
		p.quiet += d
		switch {
		case p.lost && p.quiet >= r.forget+lostAfter:
			gone = append(gone, name)
			delete(r.hosts, name)
			continue
		case !p.lost && p.quiet >= lostAfter:
			p.lost = true
			lost = append(lost, name)
		}
		if p.lost {
			silent++
		}
	}
	for ; silent > maxSilent; silent-- {
		name := r.longestSilent()
		gone = append(gone, name)
		delete(r.hosts, name)
	}
	if lost != nil || gone != nil {
		r.count()
	}
	return lost, gone
}

func (r *membership) longestSilent() (longest string) {
	for name, p := range r.hosts {
		if p.lost && (longest == "" || p.quiet > r.hosts[longest].quiet) {
			longest = name
		}
	}
	return longest
}

func (r *membership) count() {
	list := &hostList{}
	for name, p := range r.hosts {
		if p.lost {
			list.silent = append(list.silent, name)
		} else {
			list.live = append(list.live, name)
		}
	}
	slices.Sort(list.live)
	slices.Sort(list.silent)
	r.list.Store(list)
	r.changed.Store(true)
}
