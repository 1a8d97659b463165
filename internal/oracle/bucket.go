package oracle

import (
	"math/big"

	"github.com/headgate/headgate"
)

// bucket is a level that drains at Count per Period until it is empty. The level is counted in parts: a unit has as
// many parts as the period has microseconds, so Count parts drain in every microsecond.
type bucket struct {
	level *big.Int // parts at the time at
	at    int64
}

func newBucket() *bucket { return &bucket{level: new(big.Int)} }

// parts returns the number of parts of n units.
func parts(l headgate.Limit, n int64) *big.Int { return product(n, l.Period.Microseconds()) }

// units returns the number of units that the given parts make up, rounded up.
func units(l headgate.Limit, parts *big.Int) int64 { return ceilDiv(parts, l.Period.Microseconds()) }

// drains returns how many parts drain in t microseconds.
func drains(l headgate.Limit, t int64) *big.Int { return product(t, l.Count) }

// timeToDrain returns the microseconds in which limit l drains the given parts of the limit other, rounded up.
func timeToDrain(l, other headgate.Limit, parts *big.Int) int64 {
	t := new(big.Int).Mul(parts, big.NewInt(l.Period.Microseconds()))
	whole, rest := t.QuoRem(t, product(l.Count, other.Period.Microseconds()), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64()
}

// levelAt returns the level at t.
func (b *bucket) levelAt(l headgate.Limit, t int64) *big.Int {
	level := drains(l, t-b.at)
	if level.Sub(b.level, level); level.Sign() < 0 {
		level.SetInt64(0)
	}
	return level
}

// rescale converts the level to the parts of another limit of the same rate.
func (b *bucket) rescale(from, to headgate.Limit) {
	b.level.Mul(b.level, big.NewInt(to.Period.Microseconds()))
	// The quotient is exact: the level is a number of whole units minus the parts that drained in whole microseconds.
	b.level.Quo(b.level, big.NewInt(from.Period.Microseconds()))
}

func (b *bucket) used(l headgate.Limit, t int64) int64 { return units(l, b.levelAt(l, t)) }

func (b *bucket) first(l headgate.Limit, now, maxUsed int64) int64 {
	excess := b.levelAt(l, now)
	if excess.Sub(excess, parts(l, maxUsed)).Sign() <= 0 {
		return now
	}
	return now + ceilDiv(excess, l.Count)
}

func (b *bucket) add(l headgate.Limit, now, n int64, _ uint64) {
	b.level, b.at = b.levelAt(l, now), now
	b.level.Add(b.level, parts(l, n))
}

// remove subtracts the part of the units that has not drained since they were taken.
func (b *bucket) remove(l headgate.Limit, now, n int64, r headgate.Receipt) {
	drained := drains(l, now-r.At)
	if drained.Cmp(parts(l, n)) >= 0 {
		return
	}
	b.level, b.at = b.levelAt(l, now), now
	if b.level.Sub(b.level, drained.Sub(parts(l, n), drained)); b.level.Sign() < 0 {
		b.level.SetInt64(0)
	}
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceilDiv returns a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a *big.Int, b int64) int64 {
	q := new(big.Int).Add(a, big.NewInt(b-1))
	return q.Quo(q, big.NewInt(b)).Int64()
}
