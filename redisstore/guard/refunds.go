package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// If a shard denies a TakeAll, the units that were taken from other shards are given back in the background.
const (
	maxRefunds = 1024 // maximum number of queued refunds
	refunders  = 4    // number of goroutines that give units back
)

// A refund describes units to give back to the store.
type refund struct {
	shard   *shard
	check   headgate.Check
	receipt headgate.Receipt
}

// refundLater queues a refund, or drops it if the queue is full.
func (g *Guard) refundLater(s *shard, c *headgate.Check, receipt headgate.Receipt) {
	r := refund{shard: s, check: *c, receipt: receipt}
	r.check.Cost = receipt.Units
	if !g.refunds.Add(r) {
		g.counters.refundsDropped.Add(1)
	}
}

// refund gives units back to the store, unless the guard is closed.
func (g *Guard) refund(r refund) {
	if g.background.Stopped() {
		g.counters.refundsDropped.Add(1)
		return
	}
	result, err := g.give(g.background.Context(), r.shard, &r.check, r.receipt)
	g.countRefund(result == responded && err == nil)
}

// countRefund counts a refund as done or as dropped.
func (g *Guard) countRefund(ok bool) {
	if ok {
		g.counters.refunds.Add(1)
	} else {
		g.counters.refundsDropped.Add(1)
	}
}

// refundLocally gives units back to the local limiter.
func (g *Guard) refundLocally(ctx context.Context, c *headgate.Check, receipt headgate.Receipt) {
	local := g.localCheck(c)
	local.Cost = receipt.Units
	g.countRefund(g.local.Give(context.WithoutCancel(ctx), local, localReceipt(receipt)) == nil)
}
