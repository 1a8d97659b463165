package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"
)

const (
	// The keeper waits between two tries, each time twice as long.
	firstDelay, lastDelay = 10 * time.Millisecond, 500 * time.Millisecond
	// lastingDelay is for what somebody must mend.
	lastingDelay = 5 * time.Second
	// lingering is how long the keeper waits for calls to notice that their connection is gone.
	lingering = 100 * time.Millisecond
)

var errDemoted = errors.New("it has become a replica")

// reset makes the keeper connect again.
func (n *node) reset(why error) {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if conn != nil {
		conn.why.CompareAndSwap(nil, &why)
		_ = conn.Close()
	}
}

// demoted makes the keeper connect again, though not all the time, to a server that was the primary and is no more: its
// name may lead to another by now.
func (n *node) demoted() {
	n.mu.Lock()
	fresh := time.Since(n.began) < pingGap
	n.mu.Unlock()
	if !fresh {
		n.reset(errDemoted)
	}
}

// keep keeps the node connected until ctx ends.
func (n *node) keep(ctx context.Context) {
	defer close(n.done)
	delay := firstDelay
	for {
		err := n.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		var wait <-chan time.Time
		if err == nil {
			delay = firstDelay
		} else {
			n.failed(err)
			wait = time.After(delay/2 + rand.N(delay/2))
			delay = min(2*delay, lastDelay)
			if lasting(err) {
				delay = lastingDelay
			}
		}
		if !n.rest(ctx, wait) {
			return
		}
	}
}

// hangSteps is how often the keeper looks while a server that was asked is silent, until its connection is given up.
const hangSteps = 8

// rest waits until there is something to do: it is time to try again, callers have lost the connection or doubt it, or the
// server has not said a word for half of what it may. It is false when ctx ends.
func (n *node) rest(ctx context.Context, wait <-chan time.Time) bool {
	look := time.NewTicker(n.hang / hangSteps)
	defer look.Stop()
	n.silent = time.Time{}
	for heard := n.heard.Load(); ; {
		select {
		case <-ctx.Done():
			return false
		case <-wait:
			return true
		case <-n.kick:
			return true
		case <-look.C:
		}
		switch now := n.heard.Load(); {
		case now != heard || n.inside.Load() == 0:
			heard, n.silent = now, time.Time{}
		case n.silent.IsZero():
			n.silent = time.Now()
		case n.up() && time.Since(n.silent) >= n.hang/2:
			return true
		}
	}
}

// connect sees whether the server answers, on the connection there is or a new one, and opens the gate if so.
func (n *node) connect(ctx context.Context) error {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	timeout := n.hang
	switch {
	case conn == nil:
		n.awaitLeaving()
		timeout = n.dialer.timeout
	case !n.silent.IsZero(): // for a while
		timeout = max(n.hang/hangSteps, n.hang-time.Since(n.silent))
	}
	attempt := new(attempt)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, attemptKey{}, attempt), timeout)
	defer cancel()
	err := n.client.Do(ctx, n.client.B().Ping().Build()).NonRedisError()
	if err != nil && conn == nil && !attempt.made {
		// The library was about to notice that the last connection is gone.
		err = n.client.Do(ctx, n.client.B().Ping().Build()).NonRedisError()
	}
	if err != nil {
		if attempt.err != nil { // which says more than that time ran out
			err = attempt.err
		}
		n.reset(err)
		err = explainDial(err, n.addr, n.dialer.tls != nil)
		var e *ServerError
		if n.sentinel && errors.As(err, &e) && e.Cure == curePassword {
			e.Cure = cureSentinelPassword
		}
		return err
	}
	n.release(n.givenUp.Swap(0))
	if n.up() {
		return nil
	}
	n.change(&status{up: true})
	n.mu.Lock()
	gone := n.conn == nil
	n.mu.Unlock()
	if gone { // already
		n.lost(n.status.Load(), net.ErrClosed)
	}
	if n.complained {
		n.complained = false
		n.log.Info("redis server is back", "server", n.addr)
	}
	return nil
}

// awaitLeaving waits for the calls that are still inside to find that the connection is gone.
func (n *node) awaitLeaving() {
	for deadline := time.Now().Add(lingering); n.inside.Load() > n.givenUp.Load() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	n.inside.Add(-n.givenUp.Swap(0))
}

// failed records why the keeper could not connect.
func (n *node) failed(err error) {
	old := n.status.Load()
	if old.up {
		return
	}
	if !n.complained || !sameTrouble(old.err, err) {
		n.complained = true
		n.log.Warn("redis server cannot be reached", "server", n.addr, "err", err)
	}
	next := &status{err: err, since: old.since, tries: old.tries + 1, changed: make(chan struct{})}
	if n.status.CompareAndSwap(old, next) {
		close(old.changed)
	}
}

// settled waits until the keeper has connected or failed to, and returns nil or why.
func (n *node) settled(ctx context.Context) error {
	for {
		st := n.status.Load()
		switch {
		case st.up:
			return nil
		case st.tries > 0 || !errors.Is(st.err, errNotYet):
			return st.err
		}
		select {
		case <-st.changed:
		case <-ctx.Done():
			return away(n.addr, ctx.Err())
		}
	}
}

func (n *node) up() bool { return n.status.Load().up }
