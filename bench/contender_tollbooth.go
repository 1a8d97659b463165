package main

import (
	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
)

func tollboothEntry() entry {
	return entry{
		name: "tollbooth", title: "tollbooth", module: "github.com/didip/tollbooth/v7", role: peer, keepsKeys: true,
		make: newTollbooth,
	}
}

type tollboothLimiter struct{ limiter *limiter.Limiter }

func newTollbooth(q quota, _ int) (contender, error) {
	l := tollbooth.NewLimiter(q.perSecond(), nil) // nil: keys stay for ten years
	l.SetBurst(q.count)
	return tollboothLimiter{l}, nil
}

func (t tollboothLimiter) Allow(key string) bool { return !t.limiter.LimitReached(key) }
