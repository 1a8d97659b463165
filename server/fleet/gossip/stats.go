package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// Stats are the figures of a Limiter since its start.
type Stats struct {
	// Live and Known are the numbers of hosts, including this one.
	Live, Known int
	// Sent and SentBytes count packets and bytes sent, including headers. Forwarded is the number of packets of other
	// hosts that were forwarded. NotForwarded is the number of packets that were not forwarded for lack of bandwidth.
	Sent, SentBytes         int64
	Forwarded, NotForwarded int64
	// SendErrors counts packets that could not be sent. They count as lost.
	SendErrors int64
	// Received and ReceivedBytes count packets and bytes received.
	Received, ReceivedBytes int64
	// Duplicates counts packets received before. Outdated counts packets of a host from before its restart, or of a second
	// host with its name.
	Duplicates, Outdated int64
	// Malformed counts malformed packets and those of another version.
	Malformed int64
	// UnknownAliases counts tallies with an alias whose meaning this host has missed. The meaning is sent again within a
	// second.
	UnknownAliases int64
	// Waiting is the number of changes that did not fit the bandwidth in the last round. Skipped counts resends that were
	// skipped for lack of it.
	Waiting, Skipped int64
	// WrongKey, OtherCluster and Foreign count refused packets and attempts to join. Foreign counts those of a cluster
	// with the same name and another secret.
	WrongKey, OtherCluster, Foreign int64
	// StreamsRefused counts streams that were closed because too many were open.
	StreamsRefused int64
	// EventsDropped counts events that were dropped because OnEvent was too slow.
	EventsDropped int64
	// ClockAhead is how far the fleet's clock is ahead of this host's. ClocksOff is the number of hosts, including this
	// one, whose clock differs by more than fleet.MaxClockSkew.
	ClockAhead time.Duration
	ClocksOff  int
	// Ledger are the figures of the ledger. Its Lag and LagMax are the delay beyond the fastest update, plus a round and
	// the longest network delay. The time that updates of rarely used keys wait for bandwidth is not included: see
	// Waiting.
	Ledger fleet.LedgerStats
}

// Stats returns the current figures.
func (g *Limiter) Stats() Stats {
	s, in := g.sender, &g.inbox
	stats := Stats{
		Live: g.Live(), Known: g.Known(),
		Sent: s.counts.sent.Load(), SentBytes: s.counts.sentBytes.Load(),
		Forwarded: s.counts.forwarded.Load(), NotForwarded: s.counts.notForwarded.Load(),
		SendErrors: s.counts.sendErrors.Load(),
		Received:   in.receivedCount.Load(), ReceivedBytes: in.receivedBytes.Load(),
		Duplicates: in.duplicates.Load(), Outdated: in.outdated.Load(),
		Malformed: in.malformed.Load(), UnknownAliases: in.unknownAliases.Load(),
		Waiting: s.counts.backlog.Load(), Skipped: s.counts.skipped.Load(),
		WrongKey: g.events.counts[WrongKey].Load(), Foreign: g.events.counts[OtherSecret].Load(),
		OtherCluster:  g.events.counts[OtherCluster].Load(),
		EventsDropped: g.events.dropped.Load(),
		ClockAhead:    time.Duration(g.clocks.ahead.Load()), ClocksOff: int(g.clocks.hostsOff.Load()),
		Ledger: g.ledger.Stats(),
	}
	if stats.Received > 0 {
		least := g.options.Interval
		if m, ok := g.currentMesh().(*memberMesh); ok {
			least += m.longestDelay()
		}
		stats.Ledger.Lag += least
		stats.Ledger.LagMax += least
	}
	if m, ok := g.currentMesh().(*memberMesh); ok {
		stats.StreamsRefused = m.streams.Refused()
	}
	return stats
}
