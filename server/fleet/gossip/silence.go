package gossip

import (
	"time"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// maxSilence returns how long this host may send no packets. Its packets show the other hosts that it is live, what its
// clock says, and whether they have missed a packet. The result is 0 while keys are in use. It is longer in a large
// fleet, where all hosts forward packets.
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

// missedAfter returns for how long a host must be silent, or this host must be stopped, before it has probably missed
// updates.
func (g *Limiter) missedAfter() time.Duration { return missedRounds * g.options.Interval }

const (
	// missedRounds is the number of rounds after which a host that was silent has probably missed updates, or updates of
	// that host were lost.
	missedRounds = 5
	// requestRepeats is how often a request for all keys is sent. One packet may be lost.
	requestRepeats = 3
)
