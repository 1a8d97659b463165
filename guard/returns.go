package guard

import (
	"context"

	"github.com/headgate/headgate"
)

// Units that TakeAll took from one shard before another denied are returned in the background: the caller has its decision.
const (
	returnsRoom = 1024
	returners   = 4
)

// A giving is what is to be given back to the store.
type giving struct {
	shard   *shard
	check   headgate.Check
	receipt headgate.Receipt
}

// giveLater queues a giving. It never waits.
func (g *Guard) giveLater(s *shard, c *headgate.Check, r headgate.Receipt) {
	back := giving{shard: s, check: *c, receipt: r}
	back.check.Cost = r.Units
	select {
	case g.returns <- back:
	default:
		g.counters.refundsDropped.Add(1)
	}
}

// returnAll gives back until the guard is closed.
func (g *Guard) returnAll() {
	for {
		select {
		case <-g.stop:
			return
		case back := <-g.returns:
			g.giveBack(&back)
		}
	}
}

func (g *Guard) giveBack(back *giving) {
	if v, err := g.give(g.life, back.shard, &back.check, back.receipt); v != answered || err != nil {
		g.counters.refundsDropped.Add(1)
		return
	}
	g.counters.refunds.Add(1)
}

// dropReturns counts what is still queued when the guard is closed.
func (g *Guard) dropReturns() {
	for {
		select {
		case <-g.returns:
			g.counters.refundsDropped.Add(1)
		default:
			return
		}
	}
}

// giveLocally gives back to the local limiter.
func (g *Guard) giveLocally(ctx context.Context, c *headgate.Check, r headgate.Receipt) {
	local := g.localCheck(c)
	local.Cost = r.Units
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.options.Deadline)
	defer cancel()
	if err := g.local.Give(ctx, local, localReceipt(r)); err != nil {
		g.counters.refundsDropped.Add(1)
		return
	}
	g.counters.refunds.Add(1)
}
