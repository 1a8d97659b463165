package gossip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// maxLost is the maximum number of lost hosts that are remembered.
const maxLost = 1024

// A membership has the list of the other hosts. A host is live while its packets arrive, and lost after some time
// without a packet. Lost hosts are remembered, so that this host can notice the end of a partition.
type membership struct {
	forget time.Duration // lost hosts are removed after this time

	mu    sync.Mutex
	hosts map[string]*hostState

	list    atomic.Pointer[hostList]
	changed atomic.Bool // the list has changed since the last call of Limiter.checkHosts
}

// A hostList has sorted names of hosts.
type hostList struct{ live, lost []string }

// A hostState is the state of another host.
type hostState struct {
	silentFor time.Duration // time without a packet, not counting times when this process was stopped
	lost      bool
}

var _ fleet.Members = (*membership)(nil)

func newMembership(forget time.Duration) *membership {
	m := &membership{forget: forget, hosts: map[string]*hostState{}}
	m.updateList()
	return m
}

// Live returns the number of live hosts, including this one.
func (m *membership) Live() int { return len(m.live()) + 1 }

// Known returns the number of live and lost hosts, including this one. Hosts that have left do not count.
func (m *membership) Known() int {
	list := m.list.Load()
	return len(list.live) + len(list.lost) + 1
}

// live returns the names of live hosts. They must not be changed.
func (m *membership) live() []string { return m.list.Load().live }

// lost returns the names of lost hosts. They must not be changed.
func (m *membership) lost() []string { return m.list.Load().lost }

// join adds a host or marks it as live, and reports whether it was lost or unknown.
func (m *membership) join(name string) (wasLost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := m.hosts[name]
	if host == nil {
		host = &hostState{lost: true}
		m.hosts[name] = host
	}
	return m.markLive(host)
}

// received records that a packet of a host has arrived, and reports whether the host was lost. It ignores hosts that
// are not in the list, because they have left or did not join.
func (m *membership) received(name string) (wasLost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := m.hosts[name]
	return host != nil && m.markLive(host)
}

func (m *membership) markLive(host *hostState) (wasLost bool) {
	wasLost = host.lost
	host.silentFor, host.lost = 0, false
	if wasLost {
		m.updateList()
	}
	return wasLost
}

// remove removes a host, and reports whether it was known.
func (m *membership) remove(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hosts[name] == nil {
		return false
	}
	delete(m.hosts, name)
	m.updateList()
	return true
}

// advance adds d to the time without a packet of all hosts. It returns hosts that are lost now, because they were
// silent for lostAfter. It also returns lost hosts that it has removed, because they were silent for too long or
// because more than maxLost hosts are lost.
func (m *membership) advance(d, lostAfter time.Duration) (lost, removed []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lostCount := 0
	for name, host := range m.hosts {
		host.silentFor += d
		switch {
		case host.lost && host.silentFor >= m.forget+lostAfter:
			removed = append(removed, name)
			delete(m.hosts, name)
			continue
		case !host.lost && host.silentFor >= lostAfter:
			host.lost = true
			lost = append(lost, name)
		}
		if host.lost {
			lostCount++
		}
	}
	for ; lostCount > maxLost; lostCount-- {
		name := m.longestLost()
		removed = append(removed, name)
		delete(m.hosts, name)
	}
	if lost != nil || removed != nil {
		m.updateList()
	}
	return lost, removed
}

func (m *membership) longestLost() (longest string) {
	for name, host := range m.hosts {
		if host.lost && (longest == "" || host.silentFor > m.hosts[longest].silentFor) {
			longest = name
		}
	}
	return longest
}

func (m *membership) updateList() {
	list := &hostList{}
	for name, host := range m.hosts {
		if host.lost {
			list.lost = append(list.lost, name)
		} else {
			list.live = append(list.live, name)
		}
	}
	slices.Sort(list.live)
	slices.Sort(list.lost)
	m.list.Store(list)
	m.changed.Store(true)
}
