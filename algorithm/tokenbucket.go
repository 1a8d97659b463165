package algorithm

import "github.com/headgate/headgate"

// tokenBucket admits n units when the bucket, drained to the present, has room for them: never more than
// capacity + rate·t in any time t.
type tokenBucket struct{}

func (tokenBucket) decide(p *Plan, s State, now, n int64) headgate.Decision {
	return p.DecideBucket(bucketOf(s), now, n)
}

func (tokenBucket) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	b, ok := p.TakeBucket(bucketOf(s), now, n)
	if !ok {
		return s, p.DecideBucket(b, now, n)
	}
	return b.into(s), p.DescribeTaken(b, now, n)
}

func (tokenBucket) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	b, d := p.ChargeBucket(bucketOf(s), now, n)
	return b.into(s), d
}

func (tokenBucket) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	return p.GiveBucket(bucketOf(s), now, n, r.At).into(s)
}
