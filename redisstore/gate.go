package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

const (
	// maxInside leaves room in the library's queue for its own calls.
	maxInside = 1<<ringScale - 32
	// hungAfter is how many calls are given up in a row, while nothing is heard of a server, before it counts as hung; and
	// hungSilence is for how long at least, as callers may be hastier than the way to it is long.
	hungAfter   = 64
	hungSilence = 15 * time.Millisecond
	// grace is how long callers wait for a connection that was just lost.
	grace = 50 * time.Millisecond
)

var (
	errNotYet = errors.New("not connected yet")
	errHangs  = errors.New("several calls in a row were not answered in time")
)

// A status is what callers see of a connection. One is never changed; another takes its place.
type status struct {
	up      bool
	err     error // why it is not up
	since   time.Time
	tries   int           // to connect that failed since
	changed chan struct{} // closed when another takes its place
}

// enter lets a call in, or says why not.
func (n *node) enter(ctx context.Context) (*status, error) {
	if err := ctx.Err(); err != nil {
		return nil, n.refuse(err)
	}
	for {
		st := n.status.Load()
		if !st.up {
			if err := n.awaitConnection(ctx, st); err != nil {
				return nil, n.refuse(err)
			}
			continue
		}
		switch inside := n.inside.Add(1); {
		case inside == 1:
			n.busyAt.Store(n.age())
		case inside > maxInside:
			n.inside.Add(-1)
			if err := n.awaitRoom(ctx, st); err != nil {
				return nil, n.refuse(err)
			}
			continue
		}
		// The keeper connects when nobody is inside, so nobody meets it in the library and waits for it there.
		if n.status.Load() == st {
			return st, nil
		}
		n.release(1)
	}
}

// manyInside is from how many calls on commands are gathered.
const manyInside = 16

func (n *node) busy() bool { return n.inside.Load() >= manyInside }

func (n *node) refuse(err error) error {
	n.counts.refused.Add(1)
	if errors.Is(err, headgate.ErrClosed) {
		return err
	}
	if st := n.status.Load(); !st.up && errors.Is(err, context.DeadlineExceeded) {
		err = st.err
	}
	return away(n.addr, err)
}

// awaitConnection waits until a status is no longer the current one.
func (n *node) awaitConnection(ctx context.Context, st *status) error {
	patience := grace - time.Since(st.since)
	if patience <= 0 || errors.Is(st.err, headgate.ErrClosed) || lasting(st.err) {
		return st.err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-st.changed:
		return nil
	case <-timer.C:
		return st.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRoom waits until somebody has left.
func (n *node) awaitRoom(ctx context.Context, st *status) error {
	n.waiting.Add(1)
	defer n.waiting.Add(-1)
	if n.inside.Load() < maxInside {
		return nil
	}
	select {
	case <-n.room:
		if n.inside.Load() < maxInside-1 { // room for two
			n.offerRoom()
		}
		return nil
	case <-st.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) release(calls int64) {
	n.inside.Add(-calls)
	if n.waiting.Load() > 0 {
		n.offerRoom()
	}
}

func (n *node) offerRoom() {
	select {
	case n.room <- struct{}{}:
	default:
	}
}

// leave ends a call that was answered. So were all before it, also those given up.
func (n *node) leave() {
	calls := int64(1)
	if n.givenUp.Load() != 0 {
		calls += n.givenUp.Swap(0)
	}
	n.release(calls)
}

// leaveWith ends a call that was not answered, and explains why.
func (n *node) leaveWith(ctx context.Context, st *status, err error) error {
	n.counts.unanswered.Add(1)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Its place in the queue stays taken until the server answers.
		switch given := n.givenUp.Add(1); {
		case given == 1:
			n.checked.Store(n.heard.Load())
		case given%hungAfter == 0:
			n.doubt(st)
		}
		return explainNetwork(err, n.addr)
	}
	n.leave()
	n.lost(st, err)
	if errors.Is(err, errNotYet) || errors.Is(err, rueidis.ErrClosing) { // the connection was lost on the way here
		return n.refuse(n.status.Load().err)
	}
	return explain(err, n.addr)
}

// doubt is for when many calls were given up in a row. If the server has said something meanwhile, or has hardly had the time
// to, callers are merely in a hurry, and the keeper's call will tell when all is answered that they gave up.
func (n *node) doubt(st *status) {
	heard := n.heard.Load()
	if n.checked.Swap(heard) != heard || n.age()-max(n.heardAt.Load(), n.busyAt.Load()) < int64(hungSilence) {
		n.wake()
		return
	}
	n.counts.hangs.Add(1)
	n.lost(st, &ServerError{Server: n.addr, What: "hangs", Err: errHangs, Cure: "see its SLOWLOG and its host"})
}

// lost shuts the gate.
func (n *node) lost(st *status, err error) {
	down := &status{err: explain(err, n.addr), since: time.Now(), changed: make(chan struct{})}
	if !st.up || !n.status.CompareAndSwap(st, down) {
		return
	}
	close(st.changed)
	n.wake()
}

// wake has the keeper see to the connection.
func (n *node) wake() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// change sets the status, for the keeper.
func (n *node) change(st *status) {
	st.since, st.changed = time.Now(), make(chan struct{})
	if old := n.status.Swap(st); old.changed != nil {
		close(old.changed)
	}
}
