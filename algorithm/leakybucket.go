package algorithm

import "time"

// leakyBucket admits what a token-bucket would, and tells each request how long to wait for its turn, so that what
// passes is spaced by the rate. As a meter it is the token-bucket: the caller ignores the delay.
type leakyBucket struct{ bucketSteps }

func (leakyBucket) lua() luaNeeds {
	return luaNeeds{before: []string{"exact", "bucket"}, give: "bucketgive"}
}

// turn returns how long a request that arrives at now waits until all that b holds has flowed out.
func (p *Plan) turn(b Pair, now int64) time.Duration {
	if b.Units == 0 {
		return 0
	}
	return micros(max(0, b.Time+p.rate.timeFor(b.Units)-now))
}
