package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// maxSilence returns the maximum time without a packet from this host. A host must send packets even if it has no
// updates: they show that the host is live, they carry the time of its clock, and their numbers reveal missed packets.
// In a fleet smaller than MeshSize, the result is 0 while keys are in use. In a larger one, all hosts forward packets,
// and it grows with the number of hosts.
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

// missedAfter returns how long another host must be silent, or this host stopped, before updates were probably
// missed.
func (g *Limiter) missedAfter() time.Duration { return missedRounds * g.options.Interval }

const (
	// missedRounds is the number of rounds without a packet of a host after which updates were probably missed.
	missedRounds = 5
	// requestRepeats is the number of times that a request for all keys is sent, because packets may be lost.
	requestRepeats = 3
)
