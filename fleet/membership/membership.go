package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/rounds"
)

var _ fleet.Members = (*Membership)(nil)

// A List is where nodes say that they are there. One is in Redis (redisstore.Roll).
type List interface {
	// Beat records that a node is there. It returns how many nodes were heard of within the time live, how many within the
	// longer time known and have not left, and whether the node was listed before this call.
	Beat(ctx context.Context, node string, live, known time.Duration) (nLive, nKnown int, listed bool, err error)
	// Leave removes a node from the list.
	Leave(ctx context.Context, node string, live, known time.Duration) error
}

// A Membership knows how many nodes there are, as each says so every now and then. While the book cannot be reached the last
// known membership holds: a node that cannot reach the book may still be there.
//
// It also holds for a while after the book is back, until all nodes have had the time to reach it again: the first one to
// come back would otherwise believe that it is alone. During that time a node counts as gone only if it said that it leaves.
type Membership struct {
	list    List
	options Options
	clock   fleet.Clock

	live, known atomic.Int64
	failures    atomic.Int64
	heard       atomic.Int64 // by the clock: when the book last answered; 0 if never

	rounds rounds.Loop
	held   heldMembers // of beats, one at a time
}

// heldMembers is the membership that was known before the book was out of reach, or lost its data.
type heldMembers struct {
	failing     bool
	live, known int
	until       time.Duration // by the clock: how long it holds
	lost        bool          // the book has lost its list since: it does not show who left
}

// hold makes the present membership hold until every node has had the time to be heard of again.
func (h *heldMembers) hold(live, known int, lost bool, until time.Duration) {
	h.live, h.known, h.lost, h.until = live, known, lost || h.lost, until
}

// count returns what membership goes by when the book says live and known.
func (h *heldMembers) count(live, known int, now time.Duration) (int, int) {
	live, known = max(1, live), max(1, live, known)
	switch {
	case now >= h.until:
		h.lost = false
		return live, known
	case h.lost:
		return max(live, h.live), max(known, h.known)
	default: // known is without those that left
		return max(live, min(h.live, known)), known
	}
}

// Options are the settings of a Roll. Name must be given.
type Options struct {
	// Name is this node's, which no other has. At most 64 bytes.
	Name string
	// Interval is how often it says that it is there. Default DefaultBeat.
	Interval time.Duration
	// LostAfter is after how long without a word a node is not live. At least two beats. Default four.
	LostAfter time.Duration
	// ForgetAfter is after how long without a word a node is not known either. Default DefaultForget.
	ForgetAfter time.Duration
	// Clock is what time it is. Default System().
	Clock fleet.Clock
	// Logger hears of a book that cannot be reached, and can again. Default slog.Default().
	Logger *slog.Logger
}

// What the options are unless told otherwise.
const (
	DefaultInterval = time.Second
	DefaultForget   = 10 * time.Minute
)

func (o *Options) validate() error {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.LostAfter == 0 {
		o.LostAfter = 4 * o.Interval
	}
	if o.ForgetAfter == 0 {
		o.ForgetAfter = max(DefaultForget, o.LostAfter)
	}
	if o.Clock == nil {
		o.Clock = fleet.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Name == "" || len(o.Name) > fleet.MaxNameBytes:
		return fmt.Errorf("fleet: RollOptions.Name %q: want a name of at most %d bytes that no other node has", o.Name[:min(len(o.Name), fleet.MaxNameBytes)], fleet.MaxNameBytes)
	case o.Interval < 10*time.Millisecond || o.Interval > time.Minute:
		return fmt.Errorf("fleet: RollOptions.Every %v: want 10ms to 1m, or 0 for %v", o.Interval, DefaultInterval)
	case o.LostAfter < 2*o.Interval:
		return fmt.Errorf("fleet: RollOptions.Silent %v: want at least two beats of %v, or 0 for four", o.LostAfter, o.Interval)
	case o.ForgetAfter < o.LostAfter:
		return fmt.Errorf("fleet: RollOptions.Forget %v: want at least Silent, which is %v, or 0 for %v", o.ForgetAfter, o.LostAfter, DefaultForget)
	}
	return nil
}

var errNoList = errors.New("fleet: NewRoll: no RollBook: want one, such as a redisstore.Roll")

// New enters this node, and goes on saying that it is there until Close. The first answer is waited for as long as ctx
// lasts, at most two beats; if there is none, this node is all that is known until there is.
func New(ctx context.Context, book List, o Options) (*Membership, error) {
	if book == nil {
		return nil, errNoList
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	r := &Membership{list: book, options: o, clock: o.Clock}
	r.live.Store(1)
	r.known.Store(1)
	r.beat(ctx)
	r.rounds.Start(r.clock, func() time.Duration { return o.Interval }, func(ctx context.Context, _ bool) { r.beat(ctx) })
	return r, nil
}

// Live is how many nodes were heard of lately, this one included.
func (r *Membership) Live() int { return int(r.live.Load()) }

// Known is how many nodes there are that have not left, or were silent for long.
func (r *Membership) Known() int { return int(r.known.Load()) }

// beat says once that this node is there.
func (r *Membership) beat(ctx context.Context) {
	call, done := rounds.WithTimeout(ctx, r.clock, 2*r.options.Interval)
	defer done()
	live, known, listed, err := r.list.Beat(call, r.options.Name, r.options.LostAfter, r.options.ForgetAfter)
	now := r.clock.Now()
	if err != nil {
		r.failures.Add(1)
		if !r.held.failing && ctx.Err() == nil {
			r.options.Logger.Warn("membership list unreachable, keeping the last known membership", "err", err, "live", r.Live())
		}
		r.held.failing = true
		return
	}
	switch first := r.heard.Load() == 0; {
	case first: // the book may be back just now, and others may not have reached it yet: all that it knows of count
		r.held.hold(math.MaxInt, 1, false, now+r.options.LostAfter)
	case r.held.failing || !listed:
		r.held.hold(r.Live(), r.Known(), !listed, now+r.options.LostAfter)
	}
	live, known = r.held.count(live, known, now)
	if r.held.failing {
		r.options.Logger.Info("membership list reachable again", "live", live, "known", known)
	}
	r.held.failing = false
	r.live.Store(int64(live))
	r.known.Store(int64(known))
	r.heard.Store(max(1, int64(now)))
}

// Stats are the figures of a Roll.
type Stats struct {
	Live, Known int
	// Failures is how often the book did not answer.
	Failures int64
	// Age is how old this is.
	Age time.Duration
}

// Stats returns the figures as they are now.
func (r *Membership) Stats() Stats {
	s := Stats{Live: r.Live(), Known: r.Known(), Failures: r.failures.Load(), Age: r.clock.Now()}
	if heard := r.heard.Load(); heard != 0 {
		s.Age -= time.Duration(heard)
	}
	return s
}

// Close takes this node off the roll, as long as ctx lasts, and ends what NewRoll began.
func (r *Membership) Close(ctx context.Context) error {
	if err := r.rounds.Stop(ctx); err != nil {
		return err
	}
	ctx, done := rounds.WithTimeout(ctx, r.clock, 2*r.options.Interval)
	defer done()
	return r.list.Leave(ctx, r.options.Name, r.options.LostAfter, r.options.ForgetAfter)
}
