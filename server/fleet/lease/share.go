package lease

import (
	"time"

	"github.com/headgate/headgate"
)

// minShare is the share of a node that is alone with a key: it requests at most 1/minShare of the remaining units, as
// other nodes may start to use the key.
const minShare = 2

// updateShare finds out from a response whether other nodes also take units of the key: then the store has fewer units
// left than expected. While other nodes do, this node requests only its part. While no other node does, it requests
// larger and larger parts. So all units of a key can be used even if only one of many nodes uses the key.
func (h *holding) updateShare(q *request, remaining, units int64, rtt time.Duration) {
	found := remaining + units
	expected, slack := h.store.left, 1+h.capacity/32
	if h.limit.Algorithm == headgate.TokenBucket || h.limit.Algorithm == headgate.GCRA {
		expected += h.refill(q.at - h.store.requestedAt)
		slack += h.refill(2 * rtt)
	}
	switch {
	case h.store.requestedAt > 0 && min(expected, h.capacity)-found > slack:
		h.store.share = q.maxShare
	case units > 0 && units < q.want:
		h.store.share = max(minShare, q.share/4)
	}
	h.store.requestedAt = max(q.at, 1)
}

// refill returns the units that refill in a time, at most the capacity.
func (h *holding) refill(d time.Duration) int64 {
	n := float64(h.limit.Count) * float64(d) / float64(h.limit.Period)
	return int64(min(n, float64(h.capacity)))
}
