package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"
)

// A Pool sends requests to one upstream, over connections that it keeps. Make one with New. It is safe for concurrent use.
type Pool struct {
	config    Config
	network   string
	address   string
	tls       *tls.Config
	exchanges sync.Pool // of *exchange

	mu      sync.Mutex
	closed  bool
	open    int     // connections there are, or are being made
	idle    []*conn // the longest idle first
	waiting queue
	sweeper *time.Timer // looks after idle connections; nil if there are none
	stats   Stats
}

// New returns a pool for an upstream. It connects when there is a request.
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
	p.exchanges.New = func() any { return &exchange{pool: p} }
	return p, nil
}

// Close closes the connections that are idle, and refuses requests from now on. Those that are under way are finished, and
// their connections closed after them.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errClosed
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.open -= len(idle)
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	for w := p.waiting.take(); w != nil; w = p.waiting.take() {
		w.granted <- grant{err: errClosed}
	}
	p.mu.Unlock()
	for _, c := range idle {
		c.hangUp()
	}
	return nil
}

// acquire returns a connection: one that is idle, a new one, or the next that becomes free. now is the time, which is moved on
// if that takes any.
func (p *Pool) acquire(ctx context.Context, now *time.Time) (*conn, *Error) {
	const op = "get a connection"
	p.mu.Lock()
	p.stats.Requests++
	for len(p.idle) > 0 {
		// The one that was used last is the least likely to be stale.
		last := len(p.idle) - 1
		c := p.idle[last]
		p.idle[last] = nil
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if !c.expired(*now) && c.quiet() {
			return c, nil
		}
		c.hangUp()
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
		return p.connect(ctx, now)
	case p.waiting.length >= p.config.MaxWaiting:
		p.mu.Unlock()
		return nil, p.fault(FaultBusy, op, errWaiting)
	}
	w := newWaiter()
	p.waiting.add(w)
	p.mu.Unlock()
	return p.wait(ctx, now, w)
}

// wait waits for a connection, or for the right to make one.
func (p *Pool) wait(ctx context.Context, now *time.Time, w *waiter) (*conn, *Error) {
	const op = "wait for a connection"
	timer := time.NewTimer(p.config.WaitTimeout)
	defer timer.Stop()
	var failed *Error
	select {
	case g := <-w.granted:
		return p.accept(ctx, now, g)
	case <-ctx.Done():
		failed = p.ended(ctx, op)
	case <-timer.C:
		failed = p.fault(FaultBusy, op, errWaited)
	}
	p.mu.Lock()
	left := p.waiting.remove(w)
	p.mu.Unlock()
	if !left {
		// It was granted just now; the next one in line shall have it.
		switch g := <-w.granted; {
		case g.conn != nil:
			p.release(g.conn)
		case g.err == nil:
			p.free()
		}
	}
	return nil, failed
}

func (p *Pool) accept(ctx context.Context, now *time.Time, g grant) (*conn, *Error) {
	switch {
	case g.err != nil:
		return nil, p.fault(FaultClosed, "wait for a connection", g.err)
	case g.conn == nil:
		return p.connect(ctx, now)
	case !g.conn.quiet():
		g.conn.hangUp()
		return p.connect(ctx, now)
	}
	*now = time.Now()
	return g.conn, nil
}

// connect makes a connection in a slot that the caller holds, and gives the slot up if that fails.
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
	if err == nil {
		return c, nil
	}
	const op = "connect"
	if ctx.Err() != nil {
		return nil, p.ended(ctx, op)
	}
	return nil, p.fault(FaultDial, op, err)
}

// replace closes a connection and makes another in its slot.
func (p *Pool) replace(ctx context.Context, now *time.Time, c *conn) (*conn, *Error) {
	c.hangUp()
	p.mu.Lock()
	p.stats.Retries++
	p.mu.Unlock()
	return p.connect(ctx, now)
}

// release takes back a connection that may be used again. It is idle since c.since.
func (p *Pool) release(c *conn) {
	c.reused = true
	p.mu.Lock()
	p.stats.Reusable++
	if p.closed {
		p.freeSlot()
		p.mu.Unlock()
		c.hangUp()
		return
	}
	if w := p.waiting.take(); w != nil {
		p.mu.Unlock()
		w.granted <- grant{conn: c}
		return
	}
	if len(p.idle) >= p.config.MaxIdle {
		p.open--
		p.mu.Unlock()
		c.hangUp()
		return
	}
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(p.sweepEvery(), p.sweep)
	}
	p.mu.Unlock()
}

// discard closes a connection and gives up its slot.
func (p *Pool) discard(c *conn) {
	c.hangUp()
	p.free()
}

func (p *Pool) free() {
	p.mu.Lock()
	p.freeSlot()
	p.mu.Unlock()
}

// freeSlot gives the slot of a connection that is no more to who waits longest. p.mu is held.
func (p *Pool) freeSlot() {
	if w := p.waiting.take(); w != nil {
		w.granted <- grant{}
		return
	}
	p.open--
}

func (c *conn) expired(now time.Time) bool { return now.Sub(c.since) >= c.idle }

// sweepEvery is how often idle connections are looked at: often enough for their time to be kept roughly, and for those that
// the upstream has closed not to lie around.
func (p *Pool) sweepEvery() time.Duration {
	return min(p.config.IdleTimeout/2+time.Millisecond, 10*time.Second)
}

// sweep closes idle connections whose time is over or that the upstream has ended.
func (p *Pool) sweep() {
	now := time.Now()
	var ended []*conn
	p.mu.Lock()
	defer func() {
		p.mu.Unlock()
		for _, c := range ended {
			c.hangUp()
		}
	}()
	if p.closed {
		return
	}
	kept := p.idle[:0]
	for _, c := range p.idle {
		if c.expired(now) || !c.quiet() {
			ended = append(ended, c)
			continue
		}
		kept = append(kept, c)
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	for range ended {
		p.freeSlot()
	}
	if len(kept) == 0 {
		p.sweeper = nil
		return
	}
	p.sweeper.Reset(p.sweepEvery())
}
