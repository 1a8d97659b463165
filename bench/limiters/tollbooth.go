package limiters

import (
	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
	"github.com/headgate/headgate/bench/harness"
)

func tollboothEntry() Entry {
	return Entry{
		Name: "tollbooth", Title: "tollbooth", Module: "github.com/didip/tollbooth/v7", Role: harness.Peer, KeepsKeys: true,
		Make: newTollbooth,
	}
}

type tollboothLimiter struct{ limiter *limiter.Limiter }

func newTollbooth(q Quota, _ int) (Limiter, error) {
	l := tollbooth.NewLimiter(q.perSecond(), nil) // nil: keys stay for ten years
	l.SetBurst(q.Count)
	return tollboothLimiter{l}, nil
}

func (t tollboothLimiter) Allow(key string) bool { return !t.limiter.LimitReached(key) }
