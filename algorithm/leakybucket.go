package algorithm

import "time"

// leakyBucket makes the same decisions as tokenBucket. Each decision also says how long to delay the request, so that
// requests are evenly spaced at the rate of the limit. Callers may ignore the delay and use the bucket as a meter.
type leakyBucket struct{ bucketSteps }

func (leakyBucket) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "bucket"}, give: "bucketgive"}
}

// delay returns how long after now all units in the bucket have drained. A new request waits for this time.
func (p *Plan) delay(b Pair, now int64) time.Duration {
	if b.Units == 0 {
		return 0
	}
	return micros(max(0, b.Time+p.rate.timeFor(b.Units)-now))
}
