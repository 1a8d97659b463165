package gossip

import (
	"time"

	"github.com/headgate/headgate/fleet"
)

// Stats say what a Gossip has done since it was made, and how things stand.
type Stats struct {
	// Live and Known are how many hosts there are, this one included.
	Live, Known int
	// Sent and SentBytes are packets and bytes sent, with about what the network puts around them; Passed are those of other
	// hosts among the packets heard that were passed on, and NotPassed those that were not for lack of bandwidth.
	Sent, SentBytes         int64
	Forwarded, NotForwarded int64
	// SendErrors are packets that this host could not send. They are as good as lost.
	SendErrors int64
	// Received and HeardBytes are packets and bytes received.
	Received, ReceivedBytes int64
	// Duplicates were heard before, by another way. Outdated are of a host's life before its restart, or of a second host
	// with its name.
	Duplicates, Outdated int64
	// Malformed packets make no sense, or are of another version.
	Malformed int64
	// UnknownAliases tallies use a nickname whose meaning was missed. It is told again within a second.
	UnknownAliases int64
	// Waiting is how many changes did not fit the bandwidth in the last round; Skipped is how often a total was not told
	// again for lack of it.
	Waiting, Skipped int64
	// WrongKey, OtherCluster and Foreign are packets and attempts to join that were turned away. Foreign ones are of a cluster of the
	// same name with another secret.
	WrongKey, OtherCluster, Foreign int64
	// StreamsRefused is how many streams were closed at once because too many were open.
	StreamsRefused int64
	// EventsDropped is how many events OnEvent was too slow for.
	EventsDropped int64
	// ClockAhead is by how much the date of the fleet is ahead of this host's, and DatesOff how many hosts, this one included, have a
	// date that is off by more than MaxDateOff.
	ClockAhead time.Duration
	ClocksOff  int
	// Ledger is what was counted. Its Lag and LagMax are how much later news was than the fastest, and besides a round, in which it
	// waited to be told, and the way from the farthest host. How long news of keys that are seldom used waits where bandwidth is
	// short is not in them: see Waiting.
	Ledger fleet.LedgerStats
}

// Stats returns what it has done.
func (g *Limiter) Stats() Stats {
	s, h := g.sender, &g.inbox
	made := Stats{
		Live: g.Live(), Known: g.Known(),
		Sent: s.sent.Load(), SentBytes: s.sentBytes.Load(),
		Forwarded: s.passed.Load(), NotForwarded: s.notPassed.Load(), SendErrors: s.sendErrors.Load(),
		Received: h.heard.Load(), ReceivedBytes: h.heardBytes.Load(),
		Duplicates: h.duplicates.Load(), Outdated: h.outdated.Load(),
		Malformed: h.malformed.Load(), UnknownAliases: h.puzzling.Load(),
		Waiting: s.backlog.Load(), Skipped: s.skipped.Load(),
		WrongKey: g.events.counts[WrongKey].Load(), Foreign: g.events.counts[OtherSecret].Load(), OtherCluster: g.events.counts[OtherCluster].Load(),
		EventsDropped: g.events.dropped.Load(),
		ClockAhead:    time.Duration(g.clocks.ahead.Load()), ClocksOff: int(g.clocks.off.Load()),
		Ledger: g.ledger.Stats(),
	}
	if made.Received > 0 {
		least := g.options.Interval
		if m, ok := g.network().(*memberMesh); ok {
			least += m.way()
		}
		made.Ledger.Lag += least
		made.Ledger.LagMax += least
	}
	if m, ok := g.network().(*memberMesh); ok {
		made.StreamsRefused = m.streams.count.Load()
	}
	return made
}
