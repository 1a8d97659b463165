package redistest

import (
	"fmt"
	"strconv"
	"time"
)

// A Move is the migration of a slot from one server to another. During it, the old server replies ASK for keys that it
// does not have, and TRYAGAIN if it has only some of the keys.
type Move struct {
	c        *ClusterSet
	slot     string
	from, to *Server
}

// MoveSlot moves a slot with all its keys to another primary, and waits until the whole cluster knows.
func (c *ClusterSet) MoveSlot(slot int, to *Server) {
	c.t.Helper()
	c.BeginMove(slot, to).Finish()
}

// BeginMove begins to move a slot to another primary. No key is moved yet.
func (c *ClusterSet) BeginMove(slot int, to *Server) *Move {
	c.t.Helper()
	m := &Move{c: c, slot: strconv.Itoa(slot), from: c.PrimaryOfSlot(slot), to: to}
	if m.from == to {
		c.t.Fatalf("redistest: slot %d is at %s already", slot, to)
	}
	to.must("CLUSTER", "SETSLOT", m.slot, "IMPORTING", c.ids[m.from])
	m.from.must("CLUSTER", "SETSLOT", m.slot, "MIGRATING", c.ids[to])
	return m
}

// MoveKeys moves n of the remaining keys, or all if there are fewer, and returns how many it moved.
func (m *Move) MoveKeys(n int) int {
	m.c.t.Helper()
	reply, _ := m.from.must("CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(n)).([]any)
	keys := make([]string, len(reply))
	for i, key := range reply {
		keys[i] = fmt.Sprint(key)
	}
	m.MoveKey(keys...)
	return len(keys)
}

// MoveKey moves the given keys. It skips keys that do not exist.
func (m *Move) MoveKey(keys ...string) {
	m.c.t.Helper()
	if len(keys) == 0 {
		return
	}
	migrate := []string{
		"MIGRATE", host, strconv.Itoa(m.to.port), "", "0", strconv.FormatInt(doTimeout.Milliseconds(), 10),
		"AUTH2", adminName, adminPassword, "KEYS",
	}
	m.from.must(append(migrate, keys...)...)
}

// Finish moves the remaining keys and the slot itself, and waits until the whole cluster knows.
func (m *Move) Finish() {
	m.c.t.Helper()
	for m.MoveKeys(100) > 0 {
		continue
	}
	// Set the owner on the new server first. Otherwise the slot would have no owner for a moment.
	for _, s := range []*Server{m.to, m.from} {
		s.must("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
	}
	// An earlier message of the old owner may reach other servers after the claim of the new owner, and undo it. Then
	// the cluster never agrees. So announce the owner to all primaries again, as redis-cli --cluster fix does.
	announced := time.Now()
	err := m.c.waitUntil("settle slot "+m.slot, func() error {
		err := m.c.settled()
		if err != nil && time.Since(announced) > announceInterval {
			m.announceOwner()
			announced = time.Now()
		}
		return err
	})
	if err != nil {
		m.c.t.Fatal(err)
	}
	m.c.epoch = m.c.currentEpoch()
}

// announceInterval is the time after which the owner of a slot is announced again if the cluster has not agreed on it.
const announceInterval = 5 * time.Second

// announceOwner tells all running primaries that the slot belongs to its new owner.
func (m *Move) announceOwner() {
	for _, s := range m.c.servers {
		if r, err := s.replication(); err == nil && r.primary {
			_, _ = s.Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to]) // after an error, it is announced again later
		}
	}
}
