package oracle

import (
	"math/big"

	"github.com/headgate/headgate"
)

// bucket is a level that drains at Count a Period until it is empty.
type bucket struct {
	level *big.Rat // units at the time at
	at    int64
}

func newBucket() *bucket { return &bucket{level: new(big.Rat)} }

func rate(l headgate.Limit) *big.Rat { return big.NewRat(l.Count, l.Period.Microseconds()) }

// in returns how much drains in t microseconds.
func in(l headgate.Limit, t int64) *big.Rat { return new(big.Rat).Mul(rate(l), whole(t)) }

func (b *bucket) used(l headgate.Limit, t int64) *big.Rat {
	level := new(big.Rat).Sub(b.level, in(l, t-b.at))
	if level.Sign() < 0 {
		level.SetInt64(0)
	}
	return level
}

func (b *bucket) first(l headgate.Limit, now, room int64) int64 {
	excess := b.used(l, now)
	if excess.Sub(excess, whole(room)).Sign() <= 0 {
		return now
	}
	return now + ceil(excess.Quo(excess, rate(l)))
}

func (b *bucket) add(l headgate.Limit, now, n int64, _ uint64) {
	b.level, b.at = b.used(l, now), now
	b.level.Add(b.level, whole(n))
}

// remove returns the units less what the bucket drained while they were in it, a started unit counted whole.
func (b *bucket) remove(l headgate.Limit, now, n int64, r headgate.Receipt) {
	back := n - ceil(in(l, now-r.At))
	if back <= 0 {
		return
	}
	b.level, b.at = b.used(l, now), now
	if b.level.Sub(b.level, whole(back)); b.level.Sign() < 0 {
		b.level.SetInt64(0)
	}
}
