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
//
// Who sends does not hold the lock. To send wakes the server, which may well take the core from the sender for some
// milliseconds; who reads answers goes on meanwhile, and leaves to the sender what is to be sent next.
type gatherer struct {
	conn net.Conn
	many func() bool // calls are under way

	mu      sync.Mutex
	owed    bool // something was sent since the last answer was read
	sending bool // somebody is
	due     bool // who sends is to send what was kept, or else to find that nothing may be owed
	kept    []byte
	spare   []byte // what was kept and is being sent, or was
	err     error  // of sending
}

// packet is what fits into one on most networks.
const packet = 1400

func (g *gatherer) write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	waits := g.owed && len(g.kept)+len(b) < packet && g.many()
	if waits || g.sending {
		g.kept = append(g.kept, b...)
		g.due = g.due || !waits
		return len(b), nil
	}
	size := len(b)
	if len(g.kept) > 0 {
		g.kept = append(g.kept, b...)
		b = g.take()
	}
	if err := g.send(b); err != nil {
		return 0, err
	}
	return size, nil
}

// answered notes that answers were read, and sees that what was kept back is sent.
func (g *gatherer) answered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
	case g.sending: // perhaps what was just answered
		g.due = true
	case len(g.kept) == 0:
		g.owed = false
	case g.send(g.take()) != nil:
		_ = g.conn.Close() // so that those who wait for answers hear of it
	}
}

// take returns what was kept back. It stays as it is until the next time.
func (g *gatherer) take() []byte {
	b := g.kept
	if cap(g.spare) > 4*packet {
		g.spare = nil
	}
	g.kept, g.spare = g.spare[:0], b
	return b
}

// send sends b, and what has become due meanwhile. It lets go of the lock while it does.
func (g *gatherer) send(b []byte) error {
	g.sending, g.owed = true, true
	for {
		g.mu.Unlock()
		_, err := g.conn.Write(b)
		g.mu.Lock()
		if g.err = err; err != nil || !g.due {
			break
		}
		g.due = false
		if len(g.kept) == 0 {
			g.owed = false
			break
		}
		b = g.take()
	}
	g.sending = false
	return g.err
}
