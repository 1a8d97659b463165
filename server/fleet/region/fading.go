package region

import (
	"context"
	"math/bits"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// fadingUnits are units that other regions consumed under a sliding window, in the window before the open one. Their
// weight falls until the open window ends. But a store can charge units only to the open window, where their weight
// does not fall, and from where they also count in the next window. So the current weight of the units is charged, and
// units are given back as the weight falls. If the node that charged them stops, or the store fails, they count until
// the next window ends. If the key is reset, this node does not notice, and gives back too many units.
type fadingUnits struct {
	window  int64            // start of the window in which the units fade
	units   int64            // number of units, regardless of their weight
	counted int64            // number of units that were charged or are owed
	receipt headgate.Receipt // receipt of the latest charge
}

// fadingSteps is the number of steps in which fading units are given back. It limits the calls of the store.
const fadingSteps = 32

// weighed returns how many of the units count at a time.
func (f *fadingUnits) weighed(p *quota.Plan, at int64) int64 { return weigh(p, f.window, f.units, at) }

// weigh returns how many units of the previous window count at a time in a window.
func weigh(p *quota.Plan, window, units, at int64) int64 {
	rest := max(0, min(window+p.Period-at, p.Period))
	hi, lo := bits.Mul64(uint64(units), uint64(rest))
	weighed, _ := bits.Div64(hi, lo, uint64(p.Period))
	return int64(weighed)
}

// excess returns how many units must be given back at a time.
func (f *fadingUnits) excess(p *quota.Plan, at int64) int64 {
	if f.counted == 0 {
		return 0
	}
	weighed := f.weighed(p, at)
	if excess := f.counted - weighed; weighed == 0 || excess > f.units/fadingSteps {
		return max(0, excess)
	}
	return 0
}

// oweWindow adds units that another region consumed in a window to the owed units, by their current weight.
func (l *Limiter) oweWindow(p *quota.Plan, key tally.Key, window, units int64) {
	if units <= 0 {
		return
	}
	k, at := l.keys[key], l.timeOf(p, key)
	switch open := p.WindowOf(at); {
	case window >= open:
		k.owed += units
	case p.Kind == algorithm.KindSlidingWindow && window >= open-p.Period:
		if k.fading.window != open {
			k.faded, k.fading = k.fading, fadingUnits{window: open}
		}
		counting := weigh(p, open, units, at)
		k.fading.units += units
		k.fading.counted += counting
		k.owed += counting
	}
}

// windowBefore returns the start of the window before that of a tally, or 0 for limits without windows.
func windowBefore(t *tally.Tally, limit *headgate.Limit) int64 {
	if t.Window == 0 {
		return 0
	}
	return max(0, t.Window-limit.Period.Microseconds())
}

// timeOf returns the time by the clock that the windows of a key use.
func (l *Limiter) timeOf(p *quota.Plan, key tally.Key) int64 {
	offset := int64(0)
	if c, ok := l.ledger.CheckOf(key); ok && p.Limit.Staggered {
		offset = p.Offset(c.Key)
	}
	return l.ledger.Time(p, offset)
}

// fade cancels owed units whose weight has fallen. It returns how many charged units must be given back: faded is the
// number of units whose window has ended, and fading the number of other units.
func (l *Limiter) fade(key tally.Key, k *keyState) (faded, fading int64) {
	if k.faded.counted == 0 && k.fading.counted == 0 {
		return 0, 0
	}
	p, _ := l.ledger.LevelOf(key)
	if p == nil {
		return 0, 0
	}
	at := l.timeOf(p, key)
	cancel := func(f *fadingUnits) int64 {
		excess := f.excess(p, at)
		canceled := min(excess, k.owed)
		f.counted -= excess
		k.owed -= canceled
		return excess - canceled
	}
	return cancel(&k.faded), cancel(&k.fading)
}

// giveBack gives units of a charge back to the region's store.
func (l *Limiter) giveBack(ctx context.Context, c headgate.Check, units int64, r headgate.Receipt) {
	if units <= 0 || r.Units == 0 {
		return
	}
	c.Cost, r.Units = min(units, headgate.MaxCount), units
	_ = l.store.Give(ctx, c, r) // if it fails, fewer requests are allowed until the next window ends
}
