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

// A Pool sends requests to one upstream over persistent connections. Create one with New. It is safe for concurrent
// use.
type Pool struct {
	config     Config
	network    string
	address    string
	tls        *tls.Config
	roundTrips sync.Pool // of *roundTrip

	mu      sync.Mutex
	closed  bool
	slots   int         // open connections and those being opened; at most config.MaxConns
	idle    []*conn     // the longest idle first
	waiters list.List   // of chan grant: one for each request that waits for a connection, the oldest first
	sweeper *time.Timer // calls sweep; nil if no connection is idle
	stats   Stats
}

// A grant ends the wait of a request. It has a connection or an error. If both are nil, the request may open a
// connection. A grant is sent on a channel with a buffer of one, so sending does not block.
type grant struct {
	conn *conn
	err  error
}

// popWaiter removes and returns the channel of the request that has waited longest, or nil if none waits. p.mu is held.
func (p *Pool) popWaiter() chan<- grant {
	if first := p.waiters.Front(); first != nil {
		return p.waiters.Remove(first).(chan grant)
	}
	return nil
}

// New returns a Pool. It opens connections only when requests need them.
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

// Close closes idle connections, and refuses further requests. Requests in flight are completed, after which their
// connections are closed. Closing again does nothing.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.slots -= len(idle)
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	for waiter := p.popWaiter(); waiter != nil; waiter = p.popWaiter() {
		waiter <- grant{err: errClosed}
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.closeNetConn()
	}
	return nil
}

// acquire returns an idle connection, a new one, or the next connection that becomes free. *now must be the current
// time; acquire updates it if it has waited or dialed.
func (p *Pool) acquire(ctx context.Context, now *time.Time) (*conn, *Error) {
	const op = "get a connection"
	p.mu.Lock()
	p.stats.Requests++
	for len(p.idle) > 0 {
		// The connection that was used last is least likely to be stale.
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if !c.isExpired(*now) && c.isReusable() {
			return c, nil
		}
		c.closeNetConn()
		p.mu.Lock()
		p.stats.Stale++
		p.freeSlotLocked()
	}
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, p.newError(FaultClosed, op, errClosed)
	case p.slots < p.config.MaxConns:
		p.slots++
		p.mu.Unlock()
		return p.connectOrWait(ctx, now)
	case p.waiters.Len() >= p.config.MaxWaiting:
		p.mu.Unlock()
		return nil, p.newError(FaultBusy, op, errTooManyWaiting)
	}
	granted := make(chan grant, 1)
	element := p.waiters.PushBack(granted)
	p.mu.Unlock()
	return p.wait(ctx, now, granted, element)
}

// wait waits for a connection, or for the permission to open one. element is the request's entry in p.waiters.
func (p *Pool) wait(
	ctx context.Context, now *time.Time, granted <-chan grant, element *list.Element,
) (*conn, *Error) {
	const op = "wait for a connection"
	timer := time.NewTimer(p.config.WaitTimeout)
	defer timer.Stop()
	var fault *Error
	select {
	case g := <-granted:
		return p.useGrant(ctx, now, g)
	case <-ctx.Done():
		fault = p.contextError(ctx, op)
	case <-timer.C:
		fault = p.newError(FaultBusy, op, errWaitTimeout)
	}
	p.mu.Lock()
	p.waiters.Remove(element)
	p.mu.Unlock()
	select {
	case g := <-granted: // the grant was sent before the waiter was removed; it goes to the next waiting request
		if g.conn != nil {
			p.release(g.conn)
		} else if g.err == nil {
			p.freeSlot()
		}
	default:
	}
	return nil, fault
}

// useGrant returns the granted connection. If the upstream has closed it, or only the permission to open one was
// granted, useGrant opens a connection.
func (p *Pool) useGrant(ctx context.Context, now *time.Time, g grant) (*conn, *Error) {
	switch {
	case g.err != nil:
		return nil, p.newError(FaultClosed, "wait for a connection", g.err)
	case g.conn == nil:
		return p.connect(ctx, now)
	case !g.conn.isReusable():
		g.conn.closeNetConn()
		return p.connect(ctx, now)
	}
	*now = time.Now()
	return g.conn, nil
}

// connect opens a connection. The caller has reserved a slot for it, which connect frees if it fails.
func (p *Pool) connect(ctx context.Context, now *time.Time) (*conn, *Error) {
	c, err := p.dial(ctx)
	*now = time.Now()
	p.mu.Lock()
	p.stats.Dials++
	if err != nil {
		p.stats.DialErrors++
		p.freeSlotLocked()
	}
	p.mu.Unlock()
	const op = "connect"
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, p.contextError(ctx, op)
	case IsTooManyOpenFiles(err):
		return nil, p.newError(FaultBusy, op, err)
	default:
		return nil, p.newError(FaultDial, op, err)
	}
}

// connectOrWait opens a connection, like connect. If no file descriptor is left, it waits for a connection in use.
func (p *Pool) connectOrWait(ctx context.Context, now *time.Time) (*conn, *Error) {
	c, fault := p.connect(ctx, now)
	if fault == nil || fault.Fault != FaultBusy {
		return c, fault
	}
	p.mu.Lock()
	// If all connections are idle, none is in use that could be released to this request.
	if p.closed || p.slots == len(p.idle) || p.waiters.Len() >= p.config.MaxWaiting {
		p.mu.Unlock()
		return nil, fault
	}
	granted := make(chan grant, 1)
	element := p.waiters.PushBack(granted)
	p.mu.Unlock()
	return p.wait(ctx, now, granted, element)
}

// replace closes a connection and opens another one in its slot.
func (p *Pool) replace(ctx context.Context, now *time.Time, c *conn) (*conn, *Error) {
	c.closeNetConn()
	p.mu.Lock()
	p.stats.Retries++
	p.mu.Unlock()
	return p.connect(ctx, now)
}

// release takes back a connection that can be reused. The caller has set c.idleSince.
func (p *Pool) release(c *conn) {
	c.reused = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Released++
	if p.closed {
		p.freeSlotLocked()
		c.closeNetConn()
		return
	}
	if waiter := p.popWaiter(); waiter != nil {
		waiter <- grant{conn: c}
		return
	}
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(p.sweepInterval(), p.sweep)
	}
}

// discard closes a connection and frees its slot.
func (p *Pool) discard(c *conn) {
	c.closeNetConn()
	p.freeSlot()
}

func (p *Pool) freeSlot() {
	p.mu.Lock()
	p.freeSlotLocked()
	p.mu.Unlock()
}

// freeSlotLocked passes the slot of a closed connection to the next waiting request, if there is one. p.mu is held.
func (p *Pool) freeSlotLocked() {
	if waiter := p.popWaiter(); waiter != nil {
		waiter <- grant{}
		return
	}
	p.slots--
}

// isExpired reports whether the connection was idle for too long. Its timeout may be shorter than Config.IdleTimeout,
// because the upstream may close idle connections earlier.
func (c *conn) isExpired(now time.Time) bool { return now.Sub(c.idleSince) >= c.idleTimeout }

// sweepInterval returns the time between two calls of sweep. It is short enough to enforce IdleTimeout roughly, and to
// notice soon that an upstream has closed a connection.
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
		mustClose := c.isExpired(now) || !c.isReusable()
		if mustClose {
			c.closeNetConn()
			p.freeSlotLocked()
		}
		return mustClose
	})
	if len(p.idle) == 0 {
		p.sweeper = nil
		return
	}
	p.sweeper.Reset(p.sweepInterval())
}
