package tasks

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"go.uber.org/ratelimit"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func httprateMiddleware(next http.Handler, planOf func(*http.Request) string) http.Handler {
	// task: 1 middleware with plans, httprate
	byUser := func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil }
	free := httprate.LimitBy(2, time.Minute, byUser)(next)
	pro := httprate.LimitBy(100, time.Second, byUser)(next)
	plans := map[string]http.Handler{"free": free, "pro": pro}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plans[planOf(r)].ServeHTTP(w, r)
	})
	// end
}

func goLimiterGRPC(userOf func(context.Context) string) (grpc.ServerOption, error) {
	// task: 2 gRPC, go-limiter
	store, err := memorystore.New(&memorystore.Config{Tokens: 2, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if _, _, _, ok, err := store.Take(ctx, userOf(ctx)); err == nil && !ok {
			return nil, status.Error(codes.ResourceExhausted, "too many requests")
		}
		return handler(ctx, req)
	}), nil
	// end
}

func ululeGRPC(userOf func(context.Context) string) (grpc.ServerOption, error) {
	// task: 2 gRPC, ulule/limiter
	limit := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Minute, Limit: 2})
	return grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if result, err := limit.Get(ctx, userOf(ctx)); err == nil && result.Reached {
			return nil, status.Error(codes.ResourceExhausted, "too many requests")
		}
		return handler(ctx, req)
	}), nil
	// end
}

func rateWorker(ctx context.Context, jobs <-chan func()) error {
	// task: 3 worker pool, x/time/rate
	limit := rate.NewLimiter(100, 1)
	for job := range jobs {
		if err := limit.Wait(ctx); err != nil {
			return err
		}
		job()
	}
	return nil
	// end
}

func uberWorker(ctx context.Context, jobs <-chan func()) error {
	// task: 3 worker pool, uber/ratelimit
	limit := ratelimit.New(100)
	for job := range jobs {
		limit.Take() // waits on even if ctx ends
		if err := ctx.Err(); err != nil {
			return err
		}
		job()
	}
	return nil
	// end
}

// task: 4 outbound client, x/time/rate
type waiting struct{ *rate.Limiter }

func (l waiting) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := l.Wait(r.Context()); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(r)
}

// end

func rateOutbound() *http.Client { return &http.Client{Transport: waiting{rate.NewLimiter(100, 100)}} }

func redisRate(ctx context.Context, address, user string) (bool, error) {
	// task: 5 shared Redis with fail-open, redis_rate
	limit := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: address}))
	result, err := limit.Allow(ctx, user, redis_rate.PerMinute(2))
	if err != nil {
		return true, nil //nolint:nilerr // it fails open
	}
	return result.Allowed > 0, nil
	// end
}

func ululeThree(user string) func() bool {
	// task: 6 three limits at once, ulule/limiter
	limits := make(map[string]*limiter.Limiter)
	for name, r := range map[string]limiter.Rate{
		"/s": {Period: time.Second, Limit: 10}, "/h": {Period: time.Hour, Limit: 3}, "/d": {Period: 24 * time.Hour, Limit: 5000},
	} {
		limits[name] = limiter.New(memory.NewStore(), r)
	}
	return func() bool {
		for name, limit := range limits {
			if result, err := limit.Get(context.Background(), user+name); err != nil || result.Reached {
				return false // and what the others have taken is lost
			}
		}
		return true
	}
	// end
}

func rateThree() func() bool {
	// task: 6 three limits at once, x/time/rate
	// They are of one user. A denial of the last one takes from the others.
	second := rate.NewLimiter(10, 10)
	hour := rate.NewLimiter(3.0/3600, 3)
	day := rate.NewLimiter(5000.0/86400, 5000)
	return func() bool { return second.Allow() && hour.Allow() && day.Allow() }
	// end
}

func semaphoreConcurrency() func(ctx context.Context, work func() error) error {
	// task: 7 concurrency, x/sync
	slots := semaphore.NewWeighted(1) // of one user
	return func(ctx context.Context, work func() error) error {
		if err := slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer slots.Release(1)
		return work()
	}
	// end
}

func channelConcurrency() func(ctx context.Context, work func() error) error {
	// task: 7 concurrency, a channel
	slots := make(chan struct{}, 1) // of one user
	return func(ctx context.Context, work func() error) error {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-slots }()
		return work()
	}
	// end
}

func rateSettlement() func(estimate int64, ask func() (int64, error)) error {
	// task: 8 settlement, x/time/rate
	limit := rate.NewLimiter(1000.0/3600, 1000) // of one user
	return func(estimate int64, ask func() (int64, error)) error {
		if !limit.AllowN(time.Now(), int(estimate)) {
			return errOverBudget
		}
		used, err := ask()
		limit.ReserveN(time.Now(), int(used-estimate)) // nothing happens if more than the burst was used
		return err
	}
	// end
}

// task: 9 own Limiter, throttled
type exemptingThrottle struct{ throttled.RateLimiterCtx }

func (e exemptingThrottle) RateLimitCtx(ctx context.Context, key string, n int) (bool, throttled.RateLimitResult, error) {
	if key == "admin" {
		return false, throttled.RateLimitResult{}, nil
	}
	return e.RateLimiterCtx.RateLimitCtx(ctx, key, n)
}

// end

func throttledOwnLimiter(user string) (bool, error) {
	store, err := throttledstore.NewCtx(100)
	if err != nil {
		return false, err
	}
	limit, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerHour(1)})
	if err != nil {
		return false, err
	}
	own := exemptingThrottle{limit}
	first, _, err := own.RateLimitCtx(context.Background(), user, 1)
	if err != nil {
		return false, err
	}
	second, _, err := own.RateLimitCtx(context.Background(), user, 1)
	return !first && !second, err
}

// task: 10 own algorithm, throttled
type windowOfKey struct {
	start time.Time
	used  int
}

type throttledWindow struct {
	mu      sync.Mutex
	windows map[string]windowOfKey // grows without bound
	count   int
	period  time.Duration
}

func (f *throttledWindow) RateLimitCtx(_ context.Context, key string, n int) (bool, throttled.RateLimitResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, now := f.windows[key], time.Now()
	if now.Sub(w.start) >= f.period {
		w = windowOfKey{start: now}
	}
	reset := w.start.Add(f.period).Sub(now)
	if w.used+n > f.count {
		return true, throttled.RateLimitResult{Limit: f.count, Remaining: f.count - w.used, ResetAfter: reset, RetryAfter: reset}, nil
	}
	w.used += n
	f.windows[key] = w
	return false, throttled.RateLimitResult{Limit: f.count, Remaining: f.count - w.used, ResetAfter: reset, RetryAfter: -1}, nil
}

// end

var _ throttled.RateLimiterCtx = (*throttledWindow)(nil)
