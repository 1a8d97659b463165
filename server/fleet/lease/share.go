package lease

import (
	"time"

	"github.com/headgate/headgate"
)

// minShare is the share of a node that is the only one to use a key. It requests at most 1/minShare of the remaining
// units, because other nodes may start to use the key.
const minShare = 2

// updateShare determines from a response whether other nodes also take units of the key. If they do, the store has
// fewer units left than expected. Then this node requests only its part. Otherwise it requests larger parts each time.
// So a single node can use all units of a key.
func (h *holding) updateShare(q *request, remaining, units int64, rtt time.Duration) {
	found := remaining + units
	expected, tolerance := h.store.left, 1+h.capacity/32
	if h.limit.Algorithm == headgate.TokenBucket || h.limit.Algorithm == headgate.GCRA {
		expected += h.refill(q.at - h.store.requestedAt)
		tolerance += h.refill(2 * rtt)
	}
	switch {
	case h.store.requestedAt > 0 && min(expected, h.capacity)-found > tolerance:
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
