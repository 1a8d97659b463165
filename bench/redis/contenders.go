package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// redisEnv is the environment variable with the address of the Redis server, for child processes.
const redisEnv = "HEADGATE_BENCH_REDIS"

// Entries returns the contenders that count in Redis. They share one server.
func Entries() []limiters.Entry {
	return []limiters.Entry{
		{Name: "redis-headgate", Title: "**headgate**", Role: harness.Ours, Make: newRedisHeadgate},
		{
			Name: "redis-rate", Title: "redis_rate", Module: "github.com/go-redis/redis_rate/v10", Role: harness.Peer,
			Make: newRedisRate,
		},
		bareEntry(),
	}
}

func bareEntry() limiters.Entry {
	return limiters.Entry{
		Name: "redis-bare", Title: "floor: the same script by rueidis, nothing else",
		Role: harness.Floor, Make: newRedisBare,
	}
}

func redisAddress() (string, error) {
	address := os.Getenv(redisEnv)
	if address == "" {
		return "", errors.New(redisEnv + " is not set: want the address of a Redis server")
	}
	return address, nil
}

// redisHeadgate is a store in Redis as a program uses it.
type redisHeadgate struct {
	limiter headgate.Limiter
	limit   headgate.Limit
}

func newRedisHeadgate(q limiters.Quota, _ int) (limiters.Limiter, error) {
	store, err := openRedisStore()
	if err != nil {
		return nil, err
	}
	return &redisHeadgate{limiter: store, limit: headgate.Per(int64(q.Count), q.Period)}, nil
}

// newRedisGuard returns a store behind its guard. Its deadline is a minute, so that slow responses are measured instead
// of replaced by the decision of a policy.
func newRedisGuard(q limiters.Quota, _ int) (limiters.Limiter, error) {
	store, err := openRedisStore()
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store, guard.Options{Deadline: time.Minute})
	if err != nil {
		return nil, err
	}
	return &redisHeadgate{limiter: g, limit: headgate.Per(int64(q.Count), q.Period)}, nil
}

func openRedisStore() (*redisstore.Store, error) {
	address, err := redisAddress()
	if err != nil {
		return nil, err
	}
	return redisstore.Open(context.Background(), "redis://"+address, redisstore.Options{Prefix: "bench"})
}

func (r *redisHeadgate) Allow(key string) bool {
	d, err := r.limiter.Take(context.Background(), headgate.Check{Key: key, Limit: r.limit, Cost: 1})
	return err == nil && d.Allowed && !d.Degraded
}

// redisRate is the peer, redis_rate.
type redisRate struct {
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func newRedisRate(q limiters.Quota, _ int) (limiters.Limiter, error) {
	address, err := redisAddress()
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	return &redisRate{
		limiter: redis_rate.NewLimiter(client),
		limit:   redis_rate.Limit{Rate: q.Count, Burst: q.Count, Period: q.Period},
	}, nil
}

func (r *redisRate) Allow(key string) bool {
	res, err := r.limiter.Allow(context.Background(), key, r.limit)
	return err == nil && res.Allowed > 0
}

// redisBare only sends the script that headgate sends.
type redisBare struct {
	client rueidis.Client
	sha    string
	args   []string
}

func newRedisBare(q limiters.Quota, _ int) (limiters.Limiter, error) {
	address, err := redisAddress()
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DisableCache: true})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	plan, err := algorithm.NewPlan(headgate.Per(int64(q.Count), q.Period))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	sha, err := client.Do(ctx,
		client.B().ScriptLoad().Script("#!lua\n"+algorithm.Lua(headgate.TokenBucket)).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	a, b := plan.LuaArgs(0, 0)
	var numbers []byte
	for _, n := range []int64{1, plan.Capacity(), a, b} {
		numbers = append(numbers, binary.BigEndian.AppendUint64(nil, uint64(n))[1:]...)
	}
	return &redisBare{client: client, sha: sha, args: []string{"take", string(numbers)}}, nil
}

func (r *redisBare) Allow(key string) bool {
	command := r.client.B().Evalsha().Sha1(r.sha).Numkeys(1).Key("bare:" + key).Arg(r.args...).Build()
	answer, err := r.client.Do(context.Background(), command).ToString()
	return err == nil && len(answer) >= 8 && answer[7] == 1
}
