package migrate

import (
	"context"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

func redisRateBefore(ctx context.Context, address, user string) (bool, error) {
	// before: redis_rate
	limit := redis_rate.NewLimiter(redis.NewClient(&redis.Options{Addr: address}))
	result, err := limit.Allow(ctx, user, redis_rate.PerMinute(10))
	if err != nil {
		return false, err
	}
	return result.Allowed > 0, nil
	// end
}

func redisRateAfter(ctx context.Context, address, user string) (bool, error) {
	// after: redis_rate
	store, err := redisstore.Open(ctx, "redis://"+address, redisstore.Options{})
	if err != nil {
		return false, err
	}
	limit := headgate.MustBind(store, headgate.PerMinute(10))
	d, err := limit.Take(ctx, user, 1)
	return d.Allowed, err
	// end
}

func TestBothSidesAllowOnRedis(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	for name, take := range map[string]func(context.Context, string, string) (bool, error){
		"before": redisRateBefore, "after": redisRateAfter,
	} {
		if allowed, err := take(t.Context(), server.Addr(), "alice"); err != nil || !allowed {
			t.Errorf("redis_rate, %s: got %t, %v, want allowed", name, allowed, err)
		}
	}
}
