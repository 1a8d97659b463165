package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// maxSilence returns the maximum time without a packet from this host. A host must send packets even if it has no
// updates: they show that the host is live, they have the time of its clock, and their numbers reveal missed packets.
// The result is 0 while keys are in use. It is longer in a large fleet, where all hosts forward packets.
func (s *sender) maxSilence(others int, now time.Duration) time.Duration {
	switch {
	case others >= s.gossip.options.MeshSize:
		return maxSilenceInLargeFleet(others)
	case now-max(s.round.updateSentAt, time.Duration(s.received.updateAt.Load())) < ledger.RecentFor:
		return 0
	default:
		return min(skew.ReadInterval, s.gossip.options.Probe/2)
	}
}

// maxSilenceInLargeFleet is maxSilence in a large fleet.
func maxSilenceInLargeFleet(others int) time.Duration {
	return skew.ReadInterval * time.Duration(min(1+others/8, 5))
}

// missedAfter returns the time after which updates were probably missed. This is the time for which another host was
// silent, or this host was stopped.
func (g *Limiter) missedAfter() time.Duration { return missedRounds * g.options.Interval }

const (
	// missedRounds is the number of rounds without a packet of a host after which updates were probably missed.
	missedRounds = 5
	// requestRepeats is the number of times that a request for all keys is sent, because packets may be lost.
	requestRepeats = 3
)
