package limiters

import (
	"math"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/headgate/headgate/bench/harness"
)

func httprateEntry() Entry {
	return Entry{
		Name: "httprate", Title: "httprate, local counter", Module: "github.com/go-chi/httprate", Role: harness.Peer,
		Make: newHTTPRate,
	}
}

// httprateLimiter is httprate's RateLimiter.OnLimit without a request and its headers. As in OnLimit, it reads the rate
// and counts the request under one mutex. Its counter keeps a hash of the key instead of the key.
type httprateLimiter struct {
	mu      sync.Mutex
	quota   Quota
	limiter *httprate.RateLimiter
	counter httprate.LimitCounter
}

func newHTTPRate(q Quota, _ int) (Limiter, error) {
	limiter := httprate.NewRateLimiter(q.Count, q.Period,
		httprate.WithLimitCounter(httprate.NewLocalLimitCounter(q.Period)))
	return &httprateLimiter{quota: q, limiter: limiter, counter: limiter.Counter()}, nil
}

func (h *httprateLimiter) Allow(key string) bool {
	window := time.Now().UTC().Truncate(h.quota.Period)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, rate, err := h.limiter.Status(key)
	if err != nil || int(math.Round(rate))+1 > h.quota.Count {
		return false
	}
	return h.counter.IncrementBy(key, window, 1) == nil
}
