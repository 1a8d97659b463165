package gossip

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A budget limits the number of bytes that are sent per second.
type budget struct {
	rate int64

	mu    sync.Mutex
	plan  algorithm.Plan
	spent algorithm.Pair
}

// limit returns the limit of the budget. cost is the number of bytes that all hosts together send for each byte of a
// packet. The burst is the bytes of a quarter of a second or, if that is more, two packets.
func (b *budget) limit(cost int) headgate.Limit {
	return headgate.Limit{Count: b.rate, Period: time.Second, Burst: max(b.rate/4,
		int64(cost)*2*(maxPacket+packetOverhead))}
}

// available returns how many bytes may be sent now; see limit. It is negative if more bytes were sent than allowed.
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
