// Package conns bounds how many connections a server has.
package conns

import (
	"net"
	"sync/atomic"
)

// Conns counts the connections of a server, and lets there be so many and no more. It is safe for concurrent use.
type Conns struct {
	// Most is how many there may be at once.
	Most int64

	open, accepted, refused atomic.Int64
}

// Open returns how many connections there are.
func (c *Conns) Open() int64 { return c.open.Load() }

// Accepted returns how many there were.
func (c *Conns) Accepted() int64 { return c.accepted.Load() }

// Refused returns how many were too many.
func (c *Conns) Refused() int64 { return c.refused.Load() }

// Admit counts a connection, or closes it if it is one too many. Whoever has admitted it calls Done when it is closed.
func (c *Conns) Admit(conn net.Conn) bool {
	if c.open.Add(1) <= c.Most {
		c.accepted.Add(1)
		return true
	}
	c.open.Add(-1)
	c.refused.Add(1)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // no time spent on who is not served
	}
	_ = conn.Close() // who it was will see
	return false
}

// Done says that one of them was closed.
func (c *Conns) Done() { c.open.Add(-1) }

// Listener returns a listener that closes connections which are too many. Whoever gets one from it calls Done when it is
// closed.
func (c *Conns) Listener(l net.Listener) net.Listener { return &listener{Listener: l, conns: c} }

type listener struct {
	net.Listener
	conns *Conns
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.conns.Admit(conn) {
			return conn, nil
		}
	}
}
