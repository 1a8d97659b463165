package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// Stats are the figures of a Limiter since its start.
type Stats struct {
	// Live and Known are the numbers of hosts, including this one.
	Live, Known int
	// Sent and SentBytes count packets and bytes sent, including headers. Forwarded counts packets of other hosts that
	// were forwarded. NotForwarded counts packets that were not forwarded because of the bandwidth limit.
	Sent, SentBytes         int64
	Forwarded, NotForwarded int64
	// SendErrors counts packets that could not be sent. They count as lost.
	SendErrors int64
	// Received and ReceivedBytes count packets and bytes received.
	Received, ReceivedBytes int64
	// Duplicates counts packets that were received before. Outdated counts packets that a host sent before its restart,
	// and packets of a second host with the same name.
	Duplicates, Outdated int64
	// Malformed counts malformed packets and packets of another version.
	Malformed int64
	// UnknownAliases counts tallies that could not be applied because the packet that defines their alias was lost. An
	// alias is defined again within a second.
	UnknownAliases int64
	// Waiting is the number of changes that exceeded the bandwidth in the last round. Skipped counts resends that were
	// skipped because of the bandwidth limit.
	Waiting, Skipped int64
	// WrongKey, OtherCluster and OtherSecret count refused packets and attempts to join: with another encryption key,
	// from a cluster with another name, and from a cluster with the same name and another secret.
	WrongKey, OtherCluster, OtherSecret int64
	// StreamsRefused counts streams that were closed because too many were open.
	StreamsRefused int64
	// EventsDropped counts events that were dropped because OnEvent was too slow.
	EventsDropped int64
	// ClockAhead is the time by which the fleet's clock is ahead of this host's clock. ClocksOff is the number of hosts,
	// including this one, whose clock differs from the fleet's by more than fleet.MaxClockSkew.
	ClockAhead time.Duration
	ClocksOff  int
	// Ledger has the figures of the ledger. Its Lag and LagMax are the sum of an interval, the longest network delay, and
	// the delay of updates compared with the fastest update. They do not include the time that updates of rarely used
	// keys wait for bandwidth; see Waiting.
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
		WrongKey: g.events.counts[WrongKey].Load(), OtherSecret: g.events.counts[OtherSecret].Load(),
		OtherCluster:  g.events.counts[OtherCluster].Load(),
		EventsDropped: g.events.dropped.Load(),
		ClockAhead:    time.Duration(g.clocks.ahead.Load()), ClocksOff: int(g.clocks.hostsOff.Load()),
		Ledger: g.ledger.Stats(),
	}
	if stats.Received > 0 {
		minLag := g.options.Interval
		if m, ok := g.currentMesh().(*memberMesh); ok {
			minLag += m.longestDelay()
		}
		stats.Ledger.Lag += minLag
		stats.Ledger.LagMax += minLag
	}
	if m, ok := g.currentMesh().(*memberMesh); ok {
		stats.StreamsRefused = m.streams.Refused()
	}
	return stats
}
