package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/rounds"
)

var _ fleet.Members = (*Membership)(nil)

// A List is a shared list of nodes. fleetredis.MemberList implements it in Redis.
type List interface {
	// Beat adds a node to the list or refreshes its entry. It returns the number of nodes refreshed within the time live,
	// and within the longer time known, and whether the node was listed before this call.
	Beat(ctx context.Context, node string, live, known time.Duration) (nLive, nKnown int, listed bool, err error)
	// Leave removes a node from the list.
	Leave(ctx context.Context, node string, live, known time.Duration) error
}

// A Membership counts the nodes that refresh their entries in a List. While the list is unreachable, the counts do not
// change, because nodes that cannot reach the list may still be running. When the list is reachable again, the counts
// do not decrease until all nodes have had time to refresh their entries, except by nodes that have left the list.
type Membership struct {
	list    List
	options Options
	clock   clock.Stopwatch

	live, known atomic.Int64
	failures    atomic.Int64
	respondedAt atomic.Int64 // when the list last responded, by the clock; 0 if never

	rounds rounds.Loop
	held   heldCounts // used by one beat at a time
}

// heldCounts has the counts from before the list became unreachable or lost its data.
type heldCounts struct {
	failing     bool          // the latest call of the list failed
	live, known int           // the counts
	until       time.Duration // the counts are used until this time
	lost        bool          // the list has lost its data, so it does not show which nodes have left
}

// hold sets the counts to use until every node has had time to refresh its entry.
func (h *heldCounts) hold(live, known int, lost bool, until time.Duration) {
	h.live, h.known, h.lost, h.until = live, known, lost || h.lost, until
}

// count returns the counts to use when the list has live and known nodes.
func (h *heldCounts) count(live, known int, now time.Duration) (int, int) {
	live, known = max(1, live), max(1, live, known)
	switch {
	case now >= h.until:
		h.lost = false
		return live, known
	case h.lost:
		return max(live, h.live), max(known, h.known)
	default: // known does not include nodes that have left
		return max(live, min(h.live, known)), known
	}
}

// Options are the settings of a Membership. Name is required.
type Options struct {
	// Name is the unique name of this node, of at most 64 bytes.
	Name string
	// Interval is the time between two refreshes of the entry. 10 ms to 1 min. Default DefaultInterval.
	Interval time.Duration
	// LostAfter is the time without a refresh after which a node is not live. At least two intervals. Default four.
	LostAfter time.Duration
	// ForgetAfter is the time without a refresh after which a node is not known either. Default DefaultForget.
	ForgetAfter time.Duration
	// Clock provides the time and timers. Default clock.System.
	Clock clock.Clock
	// Logger logs when the list becomes unreachable or reachable again. Default slog.Default().
	Logger *slog.Logger
}

// Defaults for Options that are zero.
const (
	DefaultInterval = time.Second
	DefaultForget   = 10 * time.Minute
)

func (o *Options) validate() error {
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.LostAfter = cmp.Or(o.LostAfter, 4*o.Interval)
	o.ForgetAfter = cmp.Or(o.ForgetAfter, max(DefaultForget, o.LostAfter))
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Name == "" || len(o.Name) > fleet.MaxNameBytes:
		return fmt.Errorf("membership: Options.Name %q: want a name of at most %d bytes that no other node has",
			o.Name[:min(len(o.Name), fleet.MaxNameBytes)], fleet.MaxNameBytes)
	case o.Interval < 10*time.Millisecond || o.Interval > time.Minute:
		return fmt.Errorf("membership: Options.Interval %v: want 10ms to 1m, or 0 for %v", o.Interval, DefaultInterval)
	case o.LostAfter < 2*o.Interval:
		return fmt.Errorf("membership: Options.LostAfter %v: want at least two intervals of %v, or 0 for four", o.LostAfter,
			o.Interval)
	case o.ForgetAfter < o.LostAfter:
		return fmt.Errorf("membership: Options.ForgetAfter %v: want at least LostAfter, which is %v, or 0 for %v",
			o.ForgetAfter, o.LostAfter, DefaultForget)
	}
	return nil
}

var errNoList = errors.New("membership: New: the List is nil")

// New adds this node to the list, and refreshes its entry until Close. It waits for the first response of the list,
// until ctx ends and for at most two intervals. Before the first response, Live and Known return 1.
func New(ctx context.Context, list List, o Options) (*Membership, error) {
	if list == nil {
		return nil, errNoList
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &Membership{list: list, options: o, clock: clock.NewStopwatch(o.Clock)}
	m.live.Store(1)
	m.known.Store(1)
	m.beat(ctx)
	m.rounds.Start(m.clock, func() time.Duration { return o.Interval }, func(ctx context.Context, _ bool) { m.beat(ctx) })
	return m, nil
}

// Live returns the number of live nodes, including this one.
func (m *Membership) Live() int { return int(m.live.Load()) }

// Known returns the number of nodes that have neither left nor been silent for ForgetAfter.
func (m *Membership) Known() int { return int(m.known.Load()) }

// beat refreshes the entry once.
func (m *Membership) beat(ctx context.Context) {
	call, done := clock.WithTimeout(ctx, m.clock, 2*m.options.Interval)
	defer done()
	live, known, listed, err := m.list.Beat(call, m.options.Name, m.options.LostAfter, m.options.ForgetAfter)
	now := m.clock.Elapsed()
	if err != nil {
		m.failures.Add(1)
		if !m.held.failing && ctx.Err() == nil {
			m.options.Logger.Warn("membership list unreachable, keeping the last known membership", "err", err, "live", m.Live())
		}
		m.held.failing = true
		return
	}
	switch first := m.respondedAt.Load() == 0; {
	case first: // the list may have been unreachable until now, so count all nodes in it as live
		m.held.hold(math.MaxInt, 1, false, now+m.options.LostAfter)
	case m.held.failing || !listed:
		m.held.hold(m.Live(), m.Known(), !listed, now+m.options.LostAfter)
	}
	live, known = m.held.count(live, known, now)
	if m.held.failing {
		m.options.Logger.Info("membership list reachable again", "live", live, "known", known)
	}
	m.held.failing = false
	m.live.Store(int64(live))
	m.known.Store(int64(known))
	m.respondedAt.Store(max(1, int64(now)))
}

// Stats are the figures of a Membership.
type Stats struct {
	Live, Known int
	// Failures counts refreshes that failed.
	Failures int64
	// Age is the age of Live and Known.
	Age time.Duration
}

// Stats returns the current figures.
func (m *Membership) Stats() Stats {
	s := Stats{Live: m.Live(), Known: m.Known(), Failures: m.failures.Load(), Age: m.clock.Elapsed()}
	if at := m.respondedAt.Load(); at != 0 {
		s.Age -= time.Duration(at)
	}
	return s
}

// Close removes this node from the list, until ctx ends, and stops refreshing. Closing again does nothing.
func (m *Membership) Close(ctx context.Context) error {
	if errors.Is(m.rounds.Stop(ctx), headgate.ErrClosed) {
		return nil
	}
	ctx, done := clock.WithTimeout(ctx, m.clock, 2*m.options.Interval)
	defer done()
	return m.list.Leave(ctx, m.options.Name, m.options.LostAfter, m.options.ForgetAfter)
}
