package main

import (
	"math"
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

func httprateEntry() entry {
	return entry{
		name: "httprate", title: "httprate, local counter", module: "github.com/go-chi/httprate", role: peer,
		make: newHTTPRate,
	}
}

// httprateLimiter is httprate's RateLimiter.OnLimit without a request and its headers: under one mutex, as there, look
// at the rate and count. Its counter keeps a hash of the key, never the key.
type httprateLimiter struct {
	mu      sync.Mutex
	quota   quota
	limiter *httprate.RateLimiter
	counter httprate.LimitCounter
}

func newHTTPRate(q quota, _ int) (contender, error) {
	limiter := httprate.NewRateLimiter(q.count, q.period,
		httprate.WithLimitCounter(httprate.NewLocalLimitCounter(q.period)))
	return &httprateLimiter{quota: q, limiter: limiter, counter: limiter.Counter()}, nil
}

func (h *httprateLimiter) Allow(key string) bool {
	window := time.Now().UTC().Truncate(h.quota.period)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, rate, err := h.limiter.Status(key)
	if err != nil || int(math.Round(rate))+1 > h.quota.count {
		return false
	}
	return h.counter.IncrementBy(key, window, 1) == nil
}
