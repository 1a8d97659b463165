package algorithm

// gcra decides as token-bucket does, by virtual scheduling: it looks at times where the other looks at levels. Its
// theoretical arrival time, the moment when all that was admitted will have drained, is Anchor + Level/rate; it is kept
// as that sum because the quotient need not be a whole microsecond.
type gcra struct{ tokenBucket }

// schedule admits n units if the time from which they conform, one capacity before the arrival time that they lead to,
// has come.
func (p *Plan) schedule(b Bucket, now, n int64) (Bucket, bool) {
	b, _ = b.slide(p.rate, now)
	if ahead := b.Level + n - p.capacity; ahead > 0 && b.Anchor+p.rate.timeFor(ahead) > now {
		return b, false
	}
	b.Level += n
	return b, true
}
