package main

import "go.uber.org/ratelimit"

func uberEntry() entry {
	return entry{
		name: "uber", title: "uber/ratelimit, one counter", module: "go.uber.org/ratelimit", role: peer, single: true, waits: true,
		make: newUber,
	}
}

// uberLimiter paces: it never denies, it sleeps. It takes part where nobody has to wait.
type uberLimiter struct{ limiter ratelimit.Limiter }

func newUber(q quota, _ int) (contender, error) {
	return uberLimiter{ratelimit.New(q.count, ratelimit.Per(q.period), ratelimit.WithSlack(q.count))}, nil
}

func (u uberLimiter) Allow(string) bool {
	u.limiter.Take()
	return true
}
