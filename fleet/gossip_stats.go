package fleet

import "time"

// GossipStats say what a Gossip has done since it was made, and how things stand.
type GossipStats struct {
	// Live and Known are how many hosts there are, this one included.
	Live, Known int
	// Sent and SentBytes are packets and bytes sent, with about what the network puts around them; Passed are those of other
	// hosts among the packets heard that were passed on, and NotPassed those that were not for lack of bandwidth.
	Sent, SentBytes   int64
	Passed, NotPassed int64
	// SendErrors are packets that this host could not send. They are as good as lost.
	SendErrors int64
	// Heard and HeardBytes are packets and bytes received.
	Heard, HeardBytes int64
	// Duplicates were heard before, by another way. Outdated are of a host's life before its restart, or of a second host
	// with its name.
	Duplicates, Outdated int64
	// Malformed packets make no sense, or are of another version.
	Malformed int64
	// Puzzling tallies use a nickname whose meaning was missed. It is told again within a second.
	Puzzling int64
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
	// Ahead is by how much the date of the fleet is ahead of this host's, and DatesOff how many hosts, this one included, have a
	// date that is off by more than MaxDateOff.
	Ahead    time.Duration
	DatesOff int
	// Ledger is what was counted. Its Lag and LagMax are how much later news was than the fastest, and besides a round, in which it
	// waited to be told, and the way from the farthest host. How long news of keys that are seldom used waits where bandwidth is
	// short is not in them: see Waiting.
	Ledger LedgerStats
}

// Stats returns what it has done.
func (g *Gossip) Stats() GossipStats {
	s, h := g.spread, &g.hearing
	made := GossipStats{
		Live: g.Live(), Known: g.Known(),
		Sent: s.sent.Load(), SentBytes: s.sentBytes.Load(),
		Passed: s.passed.Load(), NotPassed: s.notPassed.Load(), SendErrors: s.sendErrors.Load(),
		Heard: h.heard.Load(), HeardBytes: h.heardBytes.Load(),
		Duplicates: h.duplicates.Load(), Outdated: h.outdated.Load(),
		Malformed: h.malformed.Load(), Puzzling: h.puzzling.Load(),
		Waiting: s.backlog.Load(), Skipped: s.skipped.Load(),
		WrongKey: g.herald.counts[WrongKey].Load(), Foreign: g.herald.counts[OtherSecret].Load(), OtherCluster: g.herald.counts[OtherCluster].Load(),
		EventsDropped: g.herald.dropped.Load(),
		Ahead:         time.Duration(g.dates.ahead.Load()), DatesOff: int(g.dates.off.Load()),
		Ledger: g.ledger.Stats(),
	}
	if made.Heard > 0 {
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
