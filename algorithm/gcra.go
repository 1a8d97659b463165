package algorithm

// gcra decides as token-bucket does, by virtual scheduling: it looks at times where the other looks at levels. Its
// theoretical arrival time, the moment when all that was admitted will have drained, is Time + Units/rate; it is kept
// as that sum because the quotient need not be a whole microsecond.
type gcra struct{ bucketSteps }

func (gcra) lua() luaNeeds { return tokenBucket{}.lua() }

// schedule admits n units if the time from which they conform, one capacity before the arrival time that they lead to,
// has come.
func (p *Plan) schedule(b Pair, now, n int64) (Pair, bool) {
	b, _ = b.slide(p.rate, now)
	if ahead := b.Units + n - p.capacity; ahead > 0 && b.Time+p.rate.timeFor(ahead) > now {
		return b, false
	}
	b.Units += n
	b.Last = max(now, b.Last)
	return b, true
}
