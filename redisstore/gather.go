package redisstore

import (
	"net"
	"sync"
)

// The client library sends what is queued as soon as nothing more is. A caller wakes it with the first command, so on a
// busy core most are sent alone, and each costs a call of the system here and one there: more than to decide it. A
// gatherer keeps commands back until they fill a packet, though only while many are under way and the server owes an
// answer to one of those that were sent: that answer sends them in any case, so nothing waits that could not be waiting
// for the server as well.
type gatherer struct {
	conn net.Conn
	many func() bool // calls are under way

	mu   sync.Mutex
	owed bool // something was sent since the last answer was read
	kept []byte
	err  error // of sending what was kept
}

// packet is what fits into one on most networks.
const packet = 1400

func (g *gatherer) write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	if g.owed && len(g.kept)+len(b) < packet && g.many() {
		g.kept = append(g.kept, b...)
		return len(b), nil
	}
	g.owed = true
	if len(g.kept) == 0 {
		return g.conn.Write(b)
	}
	g.kept = append(g.kept, b...)
	if g.send(); g.err != nil {
		return 0, g.err
	}
	return len(b), nil
}

// answered notes that answers were read, and sends what was kept back.
func (g *gatherer) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.owed = len(g.kept) > 0
	if g.owed && g.err == nil {
		if g.send(); g.err != nil {
			_ = g.conn.Close() // so that those who wait for answers hear of it
		}
	}
}

// send sends what was kept back.
func (g *gatherer) send() {
	_, g.err = g.conn.Write(g.kept)
	g.kept = g.kept[:0]
	if cap(g.kept) > 4*packet {
		g.kept = nil
	}
}
