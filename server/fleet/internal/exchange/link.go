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
	warnings         Warnings
	startedAt        time.Duration // when the latest exchange started, by clock.Elapsed
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

// ageError is the maximum error of the age of a note, because clocks of exchanges count milliseconds.
const ageError = time.Millisecond

// Exchange makes one exchange. It calls received for each tally of a peer. i is the index in notes of this node's note
// with the same key, and uptime is the peer's. Exchange returns the indexes of the notes that the exchange may not have
// stored. If another fleet uses the exchange, this is counted and reported to Settings.OnEvent, but is not an error.
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
		// Age is a maximum: it includes the whole duration of this exchange.
		t.MaxAge = max(0, n.Age) + k.clock.Elapsed() - k.startedAt
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
// Settings.MaxMissed intervals. Update calls set, unless it is nil, with the new state. If the state has changed,
// Update then reports the change to Settings.OnEvent.
func (k *Link) Update(succeeded bool, err error, set func(unreachable bool)) {
	now, since := k.clock.Elapsed(), k.unreachableSince
	event := fleet.Event{Kind: fleet.ExchangeReachable, Down: now - since}
	if succeeded {
		k.succeededAt, k.unreachableSince = now, 0
	} else if since == 0 && now-k.succeededAt >= k.Settings.UnreachableAfter() {
		k.unreachableSince = max(1, k.succeededAt)
		event = fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err}
	}
	unreachable := k.Unreachable()
	k.Counters.Unreachable.Store(unreachable)
	if set != nil {
		set(unreachable)
	}
	if wasUnreachable := since != 0; unreachable != wasUnreachable {
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
