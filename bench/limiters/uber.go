package limiters

import (
	"github.com/headgate/headgate/bench/harness"
	"go.uber.org/ratelimit"
)

func uberEntry() Entry {
	return Entry{
		Name: "uber", Title: "uber/ratelimit, one counter", Module: "go.uber.org/ratelimit", Role: harness.Peer, Single: true, Waits: true,
		Make: newUber,
	}
}

// uberLimiter delays callers and never denies a request. It is measured only with quotas for which nobody waits.
type uberLimiter struct{ limiter ratelimit.Limiter }

func newUber(q Quota, _ int) (Limiter, error) {
	return uberLimiter{ratelimit.New(q.Count, ratelimit.Per(q.Period), ratelimit.WithSlack(q.Count))}, nil
}

func (u uberLimiter) Allow(string) bool {
	u.limiter.Take()
	return true
}
