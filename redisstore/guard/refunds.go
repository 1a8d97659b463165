package guard

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// Units that TakeAll took from one shard before another denied are returned in the background.
const (
	maxRefunds = 1024 // in the queue
	refunders  = 4    // goroutines
)

// A refund is units to be returned to the store.
type refund struct {
	shard   *shard
	check   headgate.Check
	receipt headgate.Receipt
}

// refundLater queues a refund, or drops it if the queue is full.
func (g *Guard) refundLater(s *shard, c *headgate.Check, receipt headgate.Receipt) {
	r := refund{shard: s, check: *c, receipt: receipt}
	r.check.Cost = receipt.Units
	select {
	case g.refunds <- r:
	default:
		g.counters.refundsDropped.Add(1)
	}
}

// refundAll makes refunds until the guard is closed.
func (g *Guard) refundAll() {
	for {
		if s, ok := g.clock.(clock.Scheduler); ok {
			s.Wait(func() bool { return len(g.refunds) > 0 || g.background.Stopped() })
		}
		select {
		case <-g.background.Context().Done():
			return
		case r := <-g.refunds:
			result, err := g.give(g.background.Context(), r.shard, &r.check, r.receipt)
			g.countRefund(result == responded && err == nil)
		}
	}
}

func (g *Guard) countRefund(ok bool) {
	if ok {
		g.counters.refunds.Add(1)
	} else {
		g.counters.refundsDropped.Add(1)
	}
}

// dropRefunds counts the refunds that are still queued when the guard is closed.
func (g *Guard) dropRefunds() {
	for {
		select {
		case <-g.refunds:
			g.counters.refundsDropped.Add(1)
		default:
			return
		}
	}
}

// refundLocally returns units to the local limiter.
func (g *Guard) refundLocally(ctx context.Context, c *headgate.Check, receipt headgate.Receipt) {
	local := g.localCheck(c)
	local.Cost = receipt.Units
	g.countRefund(g.local.Give(context.WithoutCancel(ctx), local, localReceipt(receipt)) == nil)
}
