package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// maxSilence returns how long a host may be silent, so that others know its clock, that it is live, and that they have
// missed nothing: 0 while keys are in use, and longer in a large fleet, where all hosts forward.
func (s *sender) maxSilence(others int, now time.Duration) time.Duration {
	switch {
	case others >= s.gossip.options.MeshSize:
		return maxSilenceInLarge(others)
	case now-max(s.round.updateSentAt, time.Duration(s.received.updateAt.Load())) < ledger.RecentFor:
		return 0
	default:
		return min(skew.ReadInterval, s.gossip.options.Probe/2)
	}
}

// maxSilenceInLarge is maxSilence in a large fleet.
func maxSilenceInLarge(others int) time.Duration {
	return skew.ReadInterval * time.Duration(min(1+others/8, 5))
}

// missedAfter returns how long a host, or this one, must be silent for updates to be missed.
func (g *Limiter) missedAfter() time.Duration { return missedRounds * g.options.Interval }

const (
	// missedRounds is the number of rounds after which a silent host has probably missed updates, or its were lost.
	missedRounds = 5
	// requestRepeats is how often a request for all keys is sent, as a packet may be lost.
	requestRepeats = 3
)
