package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A Link is a node's access to an exchange: it makes exchanges, and tracks whether they succeed. Only its Counters and
// ClockSkew are safe for concurrent use.
type Link struct {
	Settings  Settings
	Counters  Counters
	ClockSkew *skew.Tracker // of the clock of the exchange

	exchange         fleet.Exchange
	clock            clock.Stopwatch
	warnings         Warnings
	startedAt        time.Duration // when the latest exchange started, as clock.Elapsed
	succeededAt      time.Duration // when an exchange last succeeded
	unreachableSince time.Duration // when exchanges started to fail; 0 while the exchange is reachable
}

// NewLink returns a Link that connects the node whose ledger is l to the exchange x.
func NewLink(x fleet.Exchange, l *ledger.Ledger, s Settings) *Link {
	return &Link{
		Settings: s, exchange: x, clock: l.Clock(), warnings: Warnings{Report: s.OnEvent},
		ClockSkew: skew.NewTracker(x, l.Clock(), s.Deadline, l.SetClockAhead, s.OnEvent),
	}
}

// ageError is how inaccurate the age of a note can be: the clocks of exchanges count milliseconds.
const ageError = time.Millisecond

// Exchange makes one exchange. It calls received for each tally of a peer: with the index of the note in notes that has
// the same key, the peer, the peer's uptime, and the tally. It returns the indexes of the notes that the exchange may
// not have stored. Notes of another fleet are counted and reported to Settings.OnEvent, and are no error.
func (k *Link) Exchange(
	ctx context.Context, notes []fleet.Note, received func(i int, from fleet.Peer, uptime time.Duration, t tally.Tally),
) (missed []int, err error) {
	ctx, done := clock.WithTimeout(ctx, k.clock, k.Settings.Deadline)
	defer done()
	k.startedAt = k.clock.Elapsed()
	missed, err = k.exchange.Exchange(ctx, notes, func(i int, n fleet.PeerNote) {
		var t tally.Tally
		from, ok := ParseAuthor(n.Author)
		uptime, read := ReadNote(n.Text, &t)
		if !ok || !read || i < 0 || i >= len(notes) {
			k.Counters.Malformed.Add(1)
			k.warnings.Malformed(k.clock.Elapsed(), n.Author)
			return
		}
		t.Age = max(0, n.Age) + k.clock.Elapsed() - k.startedAt // at most: the response took no longer than this exchange
		t.MinAge = max(0, n.Age-ageError)
		received(i, from, uptime, t)
	})
	k.Counters.Exchanges.Add(1)
	k.Counters.Sent.Add(int64(len(notes) - len(missed)))
	k.Counters.RoundTrip.Store(int64(k.clock.Elapsed() - k.startedAt))
	var foreign *fleet.ForeignError
	if errors.As(err, &foreign) {
		k.Counters.Foreign.Add(1)
		k.warnings.Foreign(k.clock.Elapsed(), err)
		err = nil
	}
	if err != nil || len(missed) > 0 {
		k.Counters.Failures.Add(1)
	}
	return missed, err
}

// Lost returns the groups of keys whose notes the exchange has lost since the last call, one bit each.
func (k *Link) Lost() uint64 {
	if r, ok := k.exchange.(fleet.LossReporter); ok {
		return r.Lost()
	}
	return 0
}

// Update records whether the latest exchange succeeded. The exchange is unreachable when no exchange has succeeded for
// Settings.MaxMissed intervals. set may be nil. Otherwise Update calls it with the new state, before it reports a
// change.
func (k *Link) Update(succeeded bool, err error, set func(unreachable bool)) {
	now, before := k.clock.Elapsed(), k.unreachableSince
	event := fleet.Event{Kind: fleet.ExchangeReachable, Down: now - before}
	if succeeded {
		k.succeededAt, k.unreachableSince = now, 0
	} else if before == 0 && now-k.succeededAt >= k.Settings.Patience() {
		k.unreachableSince = max(1, k.succeededAt)
		event = fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err}
	}
	unreachable := k.Unreachable()
	k.Counters.Unreachable.Store(unreachable)
	if set != nil {
		set(unreachable)
	}
	if unreachable != (before != 0) {
		k.Settings.OnEvent(event)
	}
}

// Unreachable reports whether the exchange is unreachable.
func (k *Link) Unreachable() bool { return k.unreachableSince != 0 }

// Failing reports whether the latest exchange failed.
func (k *Link) Failing() bool { return k.succeededAt < k.startedAt }

// StartedAt returns when the latest exchange started, by the clock of the ledger.
func (k *Link) StartedAt() time.Duration { return k.startedAt }

// Stats returns the figures of the link and the ledger.
func (k *Link) Stats(l fleet.LedgerStats) fleet.ExchangeStats {
	return k.Counters.stats(l, k.ClockSkew.Ahead())
}
