package upstream

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Pool sends requests to one upstream over kept connections. Create one with New. It is safe for concurrent use.
type Pool struct {
	config     Config
	network    string
	address    string
	tls        *tls.Config
	roundTrips sync.Pool // of *roundTrip

	mu      sync.Mutex
	closed  bool
	open    int         // connections, including those that are being opened
	idle    []*conn     // the longest idle first
	waiting list.List   // of chan grant: requests that wait for a connection, first come first served
	sweeper *time.Timer // calls sweep; nil if no connection is idle
	stats   Stats
}

// A grant is what a waiting request gets: a connection, an error, or, if both are nil, the permission to open a
// connection. Its channel has a buffer, so that sending does not block.
type grant struct {
	conn *conn
	err  error
}

// nextWaiting removes and returns the request that has waited longest, or nil if there is none. p.mu is held.
func (p *Pool) nextWaiting() chan<- grant {
	if first := p.waiting.Front(); first != nil {
		return p.waiting.Remove(first).(chan grant)
	}
	return nil
}

// New returns a Pool. It connects when there is a request.
func New(c Config) (*Pool, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &Pool{config: c, network: "tcp", address: c.Address, tls: tlsConfig(c.TLS, c.Address)}
	if path, ok := strings.CutPrefix(c.Address, "unix:"); ok {
		p.network, p.address = "unix", path
	}
	if c.Dial == nil {
		p.config.Dial = new(net.Dialer).DialContext
	}
	p.roundTrips.New = func() any { return &roundTrip{pool: p} }
	return p, nil
}

// Close closes idle connections, and refuses further requests. Requests in flight are finished, and their connections
// closed then. Closing again does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.open -= len(idle)
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	for waiting := p.nextWaiting(); waiting != nil; waiting = p.nextWaiting() {
		waiting <- grant{err: errClosed}
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.closeRaw()
	}
	return nil
}

// acquire returns a connection: an idle one, a new one, or the next that becomes free. It updates *now if that takes
// time.
func (p *Pool) acquire(ctx context.Context, now *time.Time) (*conn, *Error) {
	const op = "get a connection"
	p.mu.Lock()
	p.stats.Requests++
	for len(p.idle) > 0 {
		// The one that was used last is least likely to be stale.
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if !c.expired(*now) && c.isReusable() {
			return c, nil
		}
		c.closeRaw()
		p.mu.Lock()
		p.stats.Stale++
		p.freeSlot()
	}
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, p.fault(FaultClosed, op, errClosed)
	case p.open < p.config.MaxConns:
		p.open++
		p.mu.Unlock()
		return p.connectOrWait(ctx, now)
	case p.waiting.Len() >= p.config.MaxWaiting:
		p.mu.Unlock()
		return nil, p.fault(FaultBusy, op, errWaiting)
	}
	granted := make(chan grant, 1)
	element := p.waiting.PushBack(granted)
	p.mu.Unlock()
	return p.wait(ctx, now, granted, element)
}

// wait waits for a connection, or for the permission to open one. element is the request's entry in p.waiting.
func (p *Pool) wait(
	ctx context.Context, now *time.Time, granted <-chan grant, element *list.Element,
) (*conn, *Error) {
	const op = "wait for a connection"
	timer := time.NewTimer(p.config.WaitTimeout)
	defer timer.Stop()
	var failed *Error
	select {
	case g := <-granted:
		return p.accept(ctx, now, g)
	case <-ctx.Done():
		failed = p.contextError(ctx, op)
	case <-timer.C:
		failed = p.fault(FaultBusy, op, errWaited)
	}
	p.mu.Lock()
	p.waiting.Remove(element)
	p.mu.Unlock()
	select {
	case g := <-granted: // it arrived meanwhile; the next waiting request gets it
		if g.conn != nil {
			p.release(g.conn)
		} else if g.err == nil {
			p.free()
		}
	default:
	}
	return nil, failed
}

func (p *Pool) accept(ctx context.Context, now *time.Time, g grant) (*conn, *Error) {
	switch {
	case g.err != nil:
		return nil, p.fault(FaultClosed, "wait for a connection", g.err)
	case g.conn == nil:
		return p.connect(ctx, now)
	case !g.conn.isReusable():
		g.conn.closeRaw()
		return p.connect(ctx, now)
	}
	*now = time.Now()
	return g.conn, nil
}

// connect opens a connection in a slot that the caller holds, and frees the slot if that fails.
func (p *Pool) connect(ctx context.Context, now *time.Time) (*conn, *Error) {
	c, err := p.dial(ctx)
	*now = time.Now()
	p.mu.Lock()
	p.stats.Dials++
	if err != nil {
		p.stats.DialErrors++
		p.freeSlot()
	}
	p.mu.Unlock()
	const op = "connect"
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, p.contextError(ctx, op)
	case IsNoDescriptor(err):
		return nil, p.fault(FaultBusy, op, err)
	default:
		return nil, p.fault(FaultDial, op, err)
	}
}

// connectOrWait is connect, but without a descriptor for a new connection it waits for one that is in use.
func (p *Pool) connectOrWait(ctx context.Context, now *time.Time) (*conn, *Error) {
	c, failed := p.connect(ctx, now)
	if failed == nil || failed.Fault != FaultBusy {
		return c, failed
	}
	p.mu.Lock()
	if p.closed || p.open == len(p.idle) || p.waiting.Len() >= p.config.MaxWaiting {
		p.mu.Unlock()
		return nil, failed
	}
	granted := make(chan grant, 1)
	element := p.waiting.PushBack(granted)
	p.mu.Unlock()
	return p.wait(ctx, now, granted, element)
}

// replace closes a connection and opens another one in its slot.
func (p *Pool) replace(ctx context.Context, now *time.Time, c *conn) (*conn, *Error) {
	c.closeRaw()
	p.mu.Lock()
	p.stats.Retries++
	p.mu.Unlock()
	return p.connect(ctx, now)
}

// release takes back a connection that can be reused. It is idle since c.idleSince.
func (p *Pool) release(c *conn) {
	c.reused = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Reusable++
	if p.closed {
		p.freeSlot()
		c.closeRaw()
		return
	}
	if waiting := p.nextWaiting(); waiting != nil {
		waiting <- grant{conn: c}
		return
	}
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(p.sweepInterval(), p.sweep)
	}
}

// discard closes a connection and frees its slot.
func (p *Pool) discard(c *conn) {
	c.closeRaw()
	p.free()
}

func (p *Pool) free() {
	p.mu.Lock()
	p.freeSlot()
	p.mu.Unlock()
}

// freeSlot passes the slot of a closed connection to the next waiting request. p.mu is held.
func (p *Pool) freeSlot() {
	if waiting := p.nextWaiting(); waiting != nil {
		waiting <- grant{}
		return
	}
	p.open--
}

func (c *conn) expired(now time.Time) bool { return now.Sub(c.idleSince) >= c.idleTimeout }

// sweepInterval is the interval of sweep: short enough to enforce IdleTimeout roughly, and to close connections soon
// that the upstream has closed.
func (p *Pool) sweepInterval() time.Duration {
	return min(p.config.IdleTimeout/2+time.Millisecond, 10*time.Second)
}

// sweep closes idle connections that have expired, or that the upstream has closed.
func (p *Pool) sweep() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		ended := c.expired(now) || !c.isReusable()
		if ended {
			c.closeRaw()
			p.freeSlot()
		}
		return ended
	})
	if len(p.idle) == 0 {
		p.sweeper = nil
		return
	}
	p.sweeper.Reset(p.sweepInterval())
}
