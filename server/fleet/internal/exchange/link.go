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

// A Link is a node's connection to an exchange. It makes exchanges, and tracks whether they succeed. Only Counters and
// ClockSkew are safe for concurrent use.
type Link struct {
	Settings  Settings
	Counters  Counters
	ClockSkew *skew.Tracker // compares the clock of the exchange with this node's

	exchange         fleet.Exchange
	clock            clock.Stopwatch
	warnings         warnings
	startedAt        time.Duration // when the latest exchange started, by clock.Elapsed
	succeededAt      time.Duration // when an exchange last succeeded
	unreachableSince time.Duration // when exchanges started to fail; 0 while the exchange is reachable
}

// NewLink returns a Link that connects the node whose ledger is counts to the exchange x.
func NewLink(x fleet.Exchange, counts *ledger.Ledger, s Settings) *Link {
	return &Link{
		Settings: s, exchange: x, clock: counts.Clock(), warnings: warnings{report: s.OnEvent},
		ClockSkew: skew.NewTracker(x, counts.Clock(), s.Deadline, counts.SetClockAhead, s.OnEvent),
	}
}

// ageError is the maximum error of the age of a note, because clocks of exchanges count milliseconds.
const ageError = time.Millisecond

// Exchange makes one exchange. It calls received for each tally of a peer. i is the index in notes of this node's note
// with the same key, and uptime is the peer's. Exchange returns the indexes of the notes that the exchange may not have
// stored. If another fleet uses the exchange, this is counted and reported to Settings.OnEvent, but is not an error.
func (l *Link) Exchange(
	ctx context.Context, notes []fleet.Note, received func(i int, from fleet.Peer, uptime time.Duration, t tally.Tally),
) (missed []int, err error) {
	ctx, done := clock.WithTimeout(ctx, l.clock, l.Settings.Deadline)
	defer done()
	l.startedAt = l.clock.Elapsed()
	missed, err = l.exchange.Exchange(ctx, notes, func(i int, n fleet.PeerNote) {
		var t tally.Tally
		from, ok := ParseAuthor(n.Author)
		uptime, read := ReadNote(n.Text, &t)
		if !ok || !read || i < 0 || i >= len(notes) {
			l.Counters.Malformed.Add(1)
			l.warnings.malformed(l.clock.Elapsed(), n.Author)
			return
		}
		// Age is a maximum: it includes the whole duration of this exchange.
		t.MaxAge = max(0, n.Age) + l.clock.Elapsed() - l.startedAt
		t.MinAge = max(0, n.Age-ageError)
		received(i, from, uptime, t)
	})
	l.Counters.Exchanges.Add(1)
	l.Counters.Sent.Add(int64(len(notes) - len(missed)))
	l.Counters.RoundTrip.Store(int64(l.clock.Elapsed() - l.startedAt))
	var foreign *fleet.ForeignError
	if errors.As(err, &foreign) {
		l.Counters.Foreign.Add(1)
		l.warnings.foreign(l.clock.Elapsed(), err)
		err = nil
	}
	if err != nil || len(missed) > 0 {
		l.Counters.Failures.Add(1)
	}
	return missed, err
}

// Lost returns the groups of keys whose notes the exchange has lost since the last call, one bit each.
func (l *Link) Lost() uint64 {
	if r, ok := l.exchange.(fleet.LossReporter); ok {
		return r.Lost()
	}
	return 0
}

// Update records whether the latest exchange succeeded. The exchange is unreachable when no exchange has succeeded for
// Settings.MaxMissed intervals. Update calls set, unless it is nil, with the new state. If the state has changed,
// Update then reports the change to Settings.OnEvent.
func (l *Link) Update(succeeded bool, err error, set func(unreachable bool)) {
	now, since := l.clock.Elapsed(), l.unreachableSince
	event := fleet.Event{Kind: fleet.ExchangeReachable, Down: now - since}
	if succeeded {
		l.succeededAt, l.unreachableSince = now, 0
	} else if since == 0 && now-l.succeededAt >= l.Settings.UnreachableAfter() {
		l.unreachableSince = max(1, l.succeededAt)
		event = fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err}
	}
	unreachable := l.Unreachable()
	l.Counters.Unreachable.Store(unreachable)
	if set != nil {
		set(unreachable)
	}
	if wasUnreachable := since != 0; unreachable != wasUnreachable {
		l.Settings.OnEvent(event)
	}
}

// Unreachable reports whether the exchange is unreachable.
func (l *Link) Unreachable() bool { return l.unreachableSince != 0 }

// Failing reports whether the latest exchange failed.
func (l *Link) Failing() bool { return l.succeededAt < l.startedAt }

// StartedAt returns when the latest exchange started, by the clock of the ledger.
func (l *Link) StartedAt() time.Duration { return l.startedAt }

// Stats returns the figures of the link and the ledger.
func (l *Link) Stats(s fleet.LedgerStats) fleet.ExchangeStats {
	return l.Counters.stats(s, l.ClockSkew.Ahead())
}
