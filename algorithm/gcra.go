package algorithm

// gcra makes the same decisions as token-bucket by virtual scheduling: it compares times, not levels. Its theoretical
// arrival time, at which all admitted units will have drained, is Time + Units/rate. The state holds Time and Units
// because the quotient need not be a whole microsecond.
type gcra struct{ bucketSteps }

func (gcra) lua() luaIncludes { return tokenBucket{}.lua() }

// takeGCRA admits n units if now is not earlier than the arrival time after them, less the time in which one capacity
// drains.
func (p *Plan) takeGCRA(b Pair, now, n int64) (Pair, bool) {
	b, _ = b.slide(p.rate, now)
	if ahead := b.Units + n - p.capacity; ahead > 0 && b.Time+p.rate.timeFor(ahead) > now {
		return b, false
	}
	b.Units += n
	b.Last = max(now, b.Last)
	return b, true
}
