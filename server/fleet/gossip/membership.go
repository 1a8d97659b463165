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

// A membership holds the other hosts. A host is live while its packets arrive, and lost after some time without a
// packet.
type membership struct {
	forget time.Duration

	mu    sync.Mutex
	hosts map[string]*hostState

	list    atomic.Pointer[hostList]
	changed atomic.Bool // the list has changed since Limiter.checkHosts last checked this
}

// A hostList has sorted names of hosts.
type hostList struct{ live, lost []string }

// A hostState is the state of another host.
type hostState struct {
	silentFor time.Duration // for how long no packet has arrived while this host was running
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

// Known returns the number of hosts including lost ones that have not left.
func (m *membership) Known() int {
	list := m.list.Load()
	return len(list.live) + len(list.lost) + 1
}

// live returns the names of live hosts. They must not be changed.
func (m *membership) live() []string { return m.list.Load().live }

// lost returns the names of lost hosts. They must not be changed.
func (m *membership) lost() []string { return m.list.Load().lost }

// join adds a host, and reports whether it was lost or new.
func (m *membership) join(name string) (isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	host := m.hosts[name]
	if host == nil {
		host = &hostState{lost: true}
		m.hosts[name] = host
	}
	return m.markLive(host)
}

// received records a packet of a host, and reports whether the host was lost. It ignores hosts that have left or that
// did not join.
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

// advance adds time. It returns the hosts that are lost now because they were silent for lostAfter, and those that are
// forgotten because they were silent for too long or are too many.
func (m *membership) advance(d, lostAfter time.Duration) (lost, gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	silent := 0
	for name, host := range m.hosts {
		host.silentFor += d
		switch {
		case host.lost && host.silentFor >= m.forget+lostAfter:
			gone = append(gone, name)
			delete(m.hosts, name)
			continue
		case !host.lost && host.silentFor >= lostAfter:
			host.lost = true
			lost = append(lost, name)
		}
		if host.lost {
			silent++
		}
	}
	for ; silent > maxLost; silent-- {
		name := m.longestLost()
		gone = append(gone, name)
		delete(m.hosts, name)
	}
	if lost != nil || gone != nil {
		m.updateList()
	}
	return lost, gone
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
