package gossip

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A budget limits the number of bytes that this host sends per second. It counts them with Headgate's own algorithm.
type budget struct {
	rate int64

	mu    sync.Mutex
	plan  algorithm.Plan
	spent algorithm.Pair
}

// limit returns the limit on bytes. cost is the number of bytes that all hosts together send for each byte of a packet,
// including forwarded copies. The burst is the bytes of a quarter of a second, but at least two packets.
func (b *budget) limit(cost int) headgate.Limit {
	return headgate.Limit{Count: b.rate, Period: time.Second, Burst: max(b.rate/4,
		int64(cost)*2*(maxPacket+packetOverhead))}
}

// available returns how many bytes may be sent now. It is negative if more bytes were sent than allowed. For cost, see
// limit.
func (b *budget) available(now time.Duration, cost int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if limit := b.limit(cost); limit != b.plan.Limit() {
		_ = b.plan.Set(limit) // always valid; an error would leave the plan unchanged
	}
	return b.plan.DecidePair(b.spent, now.Microseconds(), 0).Remaining
}

func (b *budget) spend(now time.Duration, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent, _ = b.plan.ChargePair(b.spent, now.Microseconds(), int64(n))
}
