package algorithm

// gcra makes the same decisions as token-bucket, but compares times instead of levels. It compares now with the
// theoretical arrival time, at which all admitted units will have drained: Time + Units/rate. The state holds Time and
// Units instead of this sum, because Units/rate may not be a whole number of microseconds.
type gcra struct{ bucketSteps }

func (gcra) lua() luaIncludes { return tokenBucket{}.lua() }

// takeGCRA takes n units if now is late enough, and reports whether it took them. The earliest time is the theoretical
// arrival time after the take, minus the time in which the capacity drains.
func (p *Plan) takeGCRA(b Pair, now, n int64) (Pair, bool) {
	moved, drained := b.slide(p.rate, now)
	if excess := moved.Units + n - p.capacity; excess > 0 && moved.Time+p.rate.timeFor(excess) > now {
		return p.denyBucket(b, moved, drained, now), false
	}
	moved.Units += n
	moved.Last = max(now, moved.Last)
	return moved, true
}
