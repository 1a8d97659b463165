// Package tasks has ten typical tasks, written with Headgate and with other libraries. A test counts their lines.
package tasks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/client/transport"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func headgateMiddleware(next http.Handler, planOf func(*http.Request) string) http.Handler {
	// task: 1 middleware with plans, Headgate
	store := memstore.MustNew(memstore.Options{})
	plans := map[string]headgate.Limit{"free": headgate.PerMinute(2), "pro": headgate.PerSecond(100)}
	limited := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
		return r.Header.Get("X-User"), plans[planOf(r)]
	})
	return limited(next)
	// end
}

func headgateGRPC(userOf func(context.Context) string) grpc.ServerOption {
	// task: 2 gRPC, Headgate
	store := memstore.MustNew(memstore.Options{})
	limit := grpclimit.By(store, func(ctx context.Context, _ string) (string, headgate.Limit) {
		return userOf(ctx), headgate.PerMinute(2)
	})
	return grpc.ChainUnaryInterceptor(limit.Unary)
	// end
}

func headgateWorker(ctx context.Context, jobs <-chan func()) error {
	// task: 3 worker pool, Headgate
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	limit := headgate.MustBind(store, headgate.MustParseLimit("100/s burst 1"))
	for job := range jobs {
		if err := limit.Wait(ctx, "jobs"); err != nil {
			return err
		}
		job()
	}
	return nil
	// end
}

func headgateOutbound() (*http.Client, error) {
	// task: 4 outbound client, Headgate
	store := memstore.MustNew(memstore.Options{})
	limited, err := transport.New(transport.Options{Limiter: store, Limit: headgate.PerSecond(100)})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: limited}, nil
	// end
}

func headgateRedis(ctx context.Context, address, user string) (bool, error) {
	// task: 5 shared Redis with fail-open, Headgate
	store, err := redisstore.Open(ctx, "redis://"+address, redisstore.Options{StartUnreachable: true})
	if err != nil {
		return false, err
	}
	limit := headgate.MustBind(guard.MustNew(store, guard.Options{}), headgate.PerMinute(2))
	return limit.Allow(user), nil
	// end
}

func headgateThree(user string) func() bool {
	// task: 6 three limits at once, Headgate
	store := memstore.MustNew(memstore.Options{})
	perUser := headgate.MustBindAll(store, headgate.PerSecond(10), headgate.PerHour(3), headgate.PerDay(5000))
	return func() bool { return perUser.Allow(user) }
	// end
}

func headgateConcurrency(user string) func(ctx context.Context, work func() error) error {
	// task: 7 concurrency, Headgate
	store := memstore.MustNew(memstore.Options{})
	return func(ctx context.Context, work func() error) error {
		return headgate.Do(ctx, store, headgate.Check{Key: user, Limit: headgate.InFlight(1), Cost: 1}, work)
	}
	// end
}

var errOverBudget = errors.New("over budget")

func headgateSettlement(user string) func(ctx context.Context, estimate int64, ask func() (int64, error)) error {
	// task: 8 settlement, Headgate
	store := memstore.MustNew(memstore.Options{})
	budget := headgate.MustBind(store, headgate.PerHour(1000))
	return func(ctx context.Context, estimate int64, ask func() (int64, error)) error {
		d, err := budget.Take(ctx, user, estimate)
		if err != nil || !d.Allowed {
			return errors.Join(err, errOverBudget)
		}
		used, err := ask()
		return errors.Join(err, budget.Settle(ctx, user, d.Receipt, used))
	}
	// end
}

// task: 9 own Limiter, Headgate
type exempting struct{ headgate.Limiter }

func (e exempting) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if c.Key == "admin" {
		return headgate.Decision{Allowed: true}, nil
	}
	return e.Limiter.Take(ctx, c)
}

// end

func headgateOwnLimiter(user string) bool {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	limit := headgate.MustBind(exempting{store}, headgate.PerHour(1))
	first, second := limit.Allow(user), limit.Allow(user)
	return first && second
}

// task: 10 own algorithm, Headgate
type firstWindow struct{}

func (firstWindow) Used(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
	if now >= s[0]+l.Period.Microseconds() {
		return 0
	}
	return s[1]
}

func (w firstWindow) Take(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
	if w.Used(l, s, now) == 0 {
		return algorithm.Numbers{now, n}
	}
	return algorithm.Numbers{s[0], s[1] + n}
}

func (firstWindow) Give(_ headgate.Limit, s algorithm.Numbers, _, n, taken int64) algorithm.Numbers {
	if taken >= s[0] {
		s[1] = max(0, s[1]-n)
	}
	return s
}

// end

func headgateOwnAlgorithm(count int64, period time.Duration) func(user string) (bool, time.Duration) {
	store := memstore.MustNew(memstore.Options{Algorithms: map[headgate.Algorithm]algorithm.Custom{headgate.FirstCustom: firstWindow{}}})
	limit := headgate.MustBind(store, headgate.Limit{Algorithm: headgate.FirstCustom, Count: count, Period: period})
	return func(user string) (bool, time.Duration) {
		d, err := limit.Take(context.Background(), user, 1)
		return err == nil && d.Allowed, d.RetryAfter
	}
}
