package algorithm

import (
	"math/bits"

	"github.com/headgate/headgate"
)

// A Bucket is the state of token-bucket, gcra and leaky-bucket: Level units had been consumed since Anchor, and none
// since then has drained. What is in the bucket at a time t is Level − rate·(t − Anchor), exactly: the anchor moves only
// by times in which whole units drain, or to the present when the bucket is empty. Stores that keep one in two words of
// their own may use it instead of a State.
type Bucket struct {
	Anchor int64 // µs
	Level  int64 // units
}

func bucketOf(s State) Bucket {
	if len(s) == 0 {
		return Bucket{}
	}
	return Bucket{Anchor: s[0], Level: s[1]}
}

func (b Bucket) into(s State) State {
	if len(s) == 0 {
		return append(s, b.Anchor, b.Level)
	}
	s[0], s[1] = b.Anchor, b.Level
	return s
}

// slide moves the anchor to less than one reduced period before now, or to now when the bucket is empty, and returns
// how many whole units have drained since the anchor. An anchor ahead of now stays, and nothing has drained.
func (b Bucket) slide(r rate, now int64) (slid Bucket, drained int64) {
	if b.Level == 0 {
		return Bucket{Anchor: max(now, b.Anchor)}, 0
	}
	elapsed := now - b.Anchor
	if elapsed <= 0 {
		return b, 0
	}
	if elapsed >= r.micros {
		periods := elapsed / r.micros
		hi, gone := bits.Mul64(uint64(periods), uint64(r.units))
		if hi != 0 || gone >= uint64(b.Level) {
			return Bucket{Anchor: now}, 0
		}
		b.Level -= int64(gone)
		b.Anchor += periods * r.micros
		elapsed -= periods * r.micros
	}
	if r.units > 1 { // else a unit drains in whole periods only
		if drained = r.unitsIn(elapsed, b.Level); drained >= b.Level {
			return Bucket{Anchor: now}, 0
		}
	}
	return b, drained
}

// TakeBucket is Take for a bucket: it returns the bucket after, and whether the n units were taken. n is at most the
// capacity.
func (p *Plan) TakeBucket(b Bucket, now, n int64) (Bucket, bool) {
	if p.limit.Algorithm == headgate.GCRA {
		return p.schedule(b, now, n)
	}
	b, drained := b.slide(p.rate, now)
	if b.Level+n-drained > p.capacity {
		return b, false
	}
	b.Level += n
	return b, true
}

// DecideBucket is Decide for a bucket.
func (p *Plan) DecideBucket(b Bucket, now, n int64) headgate.Decision {
	if n > p.capacity {
		return p.never(p.DecideBucket(b, now, 0))
	}
	slid, drained := b.slide(p.rate, now)
	var d headgate.Decision
	p.describeBucket(&d, slid, drained, now, n, slid.Level+n-drained <= p.capacity)
	return d
}

// DescribeTaken completes the decision of n units that TakeBucket has just taken, which left the bucket b.
func (p *Plan) DescribeTaken(b Bucket, now, n int64) headgate.Decision {
	b.Level -= n
	var drained int64
	if p.rate.units > 1 && now > b.Anchor {
		drained = p.rate.unitsIn(now-b.Anchor, b.Level)
	}
	var d headgate.Decision
	p.describeBucket(&d, b, drained, now, n, true)
	return d
}

// describeBucket fills in the decision about n units and a bucket that slide has brought to now.
func (p *Plan) describeBucket(d *headgate.Decision, b Bucket, drained, now, n int64, allowed bool) {
	d.Allowed = allowed
	d.Limit = p.capacity
	level := b.Level
	if allowed {
		level += n
		if n > 0 {
			d.Receipt = headgate.Receipt{At: max(now, b.Anchor), Units: n}
		}
		if p.limit.Algorithm == headgate.LeakyBucket && n > 0 {
			d.Delay = p.turn(b, now)
		}
	} else {
		d.RetryAfter = micros(b.Anchor + p.rate.timeFor(b.Level+n-p.capacity) - now)
	}
	d.Remaining = p.capacity - (level - drained)
	if level > 0 {
		d.ResetAfter = micros(b.Anchor + p.rate.timeFor(level) - now)
	}
}

// GiveBucket returns n units taken at a time: as many as the bucket would not have drained since.
func (p *Plan) GiveBucket(b Bucket, now, n, at int64) Bucket {
	b, drained := b.slide(p.rate, now)
	held := max(0, now-at)
	back := n - mulDivCeil(held, p.rate.units, p.rate.micros, n)
	if b.Level-drained <= back {
		return Bucket{Anchor: max(now, b.Anchor)}
	}
	b.Level -= back
	return b
}

// ChargeBucket takes n units whatever the level, up to the deepest debt.
func (p *Plan) ChargeBucket(b Bucket, now, n int64) (Bucket, headgate.Decision) {
	b, drained := b.slide(p.rate, now)
	b.Level += min(n, max(0, p.deepest-(b.Level-drained)))
	d := p.DecideBucket(b, now, 0)
	d.RetryAfter = 0
	d.Receipt = headgate.Receipt{At: max(now, b.Anchor), Units: n}
	return b, d
}
