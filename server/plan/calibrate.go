package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/loadgen"
	"github.com/headgate/headgate/server/loadgen/target"
)

// measured is the source of calibrated constants.
const measured = "measured on this machine"

// maxCounterKeys is the maximum number of keys with which the memory of a node is measured.
const maxCounterKeys = 1_000_000

// NodeCounters returns the number of counters in a node that gets requests of all clients.
func (in *Input) NodeCounters() float64 { return in.Clients * float64(in.Limits) }

// MeasureCounters measures the memory per counter of a node with the given number of counters. If the number is large,
// it halves it until it is at most maxCounterKeys. The result is the same, because tables double in size when they
// grow, so a table with half as many keys is equally full.
func MeasureCounters(ctx context.Context, c *Constants, counters float64) error {
	for counters > maxCounterKeys {
		counters /= 2
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	limit, err := store.Bind(headgate.PerHour(100))
	if err != nil {
		return err
	}
	for i := range max(1, int(counters)) {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		limit.Allow("client-" + strconv.Itoa(i))
	}
	stats := store.Stats()
	c.NodeBytes.Value = float64(stats.Bytes) / float64(stats.Keys)
	c.NodeBytes.Source = fmt.Sprintf("%s: memstore with %d keys", measured, stats.Keys)
	return nil
}

// senders is the number of requests in flight while throughput is measured.
const senders = 64

// NodeTargets are the targets with which the speed of a node is measured.
type NodeTargets struct {
	// One applies one limit to each request, and Several applies Limits limits. Several is not used if Limits is 1.
	One, Several target.Target
	Limits       int
}

// Measure measures the decisions per second of a node for the given time, like bench load --rate max, and the
// additional work of several limits.
func (s *NodeSpeed) Measure(ctx context.Context, t NodeTargets, duration time.Duration) error {
	one, err := saturate(ctx, t.One, duration)
	if err != nil {
		return fmt.Errorf("measure a node: %w", err)
	}
	s.Decisions.Value = one
	s.Decisions.Source = measured + ": bench load --rate max, over gRPC"
	if t.Limits == 1 {
		return nil
	}
	several, err := saturate(ctx, t.Several, duration)
	if err != nil {
		return fmt.Errorf("measure a node: %w", err)
	}
	s.LimitWork.Value = max((one/several-1)/float64(t.Limits-1), 0)
	s.LimitWork.Source = fmt.Sprintf("%s: decisions with %d limits against those with one", measured, t.Limits)
	return nil
}

// rounds is the number of parts of a measurement of throughput. The result is the median of the parts, so that it does
// not depend on parts in which the machine was busy with other work.
const rounds = 5

// saturate measures the number of requests per second that a target decides. It drops the first part, which is a
// warm-up.
func saturate(ctx context.Context, t target.Target, duration time.Duration) (float64, error) {
	var throughputs []float64
	for range 1 + rounds {
		run, err := loadgen.New(loadgen.Options{
			Target: t, Duration: duration / rounds, Connections: senders, Prefix: "plan-",
		})
		if err != nil {
			return 0, err
		}
		r := run.Do(ctx)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case r.Errors > 0:
			return 0, fmt.Errorf("%d of %d requests failed: %s", r.Errors, r.Sent, r.FirstError)
		case r.Degraded > 0:
			return 0, fmt.Errorf("%d of %d decisions were made without Redis, which is not fast enough", r.Degraded, r.Sent)
		}
		throughputs = append(throughputs, r.Achieved)
	}
	return median(throughputs[1:]), nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// MeasureShard measures a Redis server: the calls per second with one limit, like bench load --rate max; the additional
// work of calls with several limits; and the round trip of one call at a time. t and store must use the same server.
func MeasureShard(
	ctx context.Context, c *Constants, t target.Target, store headgate.Limiter, limits int, duration time.Duration,
) error {
	throughput, err := saturate(ctx, t, duration)
	if err != nil {
		return fmt.Errorf("measure Redis: %w", err)
	}
	sequential, err := callsPerSecond(ctx, store, 1, 1, duration/4)
	if err != nil {
		return err
	}
	c.ShardCalls.Value, c.ShardCalls.Source = throughput, measured+": bench load --rate max, redis-store"
	c.RoundTrip.Value, c.RoundTrip.Source = 1e6/sequential, measured+": one call at a time, loopback"
	if limits == 1 {
		return nil
	}
	one, err := callsPerSecond(ctx, store, 1, senders, duration)
	if err != nil {
		return err
	}
	several, err := callsPerSecond(ctx, store, limits, senders, duration)
	if err != nil {
		return err
	}
	c.LimitWork.Value = max((one/several-1)/float64(limits-1), 0)
	c.LimitWork.Source = fmt.Sprintf("%s: calls with %d limits against calls with one", measured, limits)
	return nil
}

// callsPerSecond returns the calls per second of several goroutines. Each call has the given number of limits.
func callsPerSecond(
	ctx context.Context, store headgate.Limiter, limits, goroutines int, duration time.Duration,
) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+shardTimeout)
	defer cancel()
	var calls atomic.Int64
	errs := make([]error, goroutines)
	var workers sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		workers.Go(func() {
			checks := make([]headgate.Check, limits)
			var decisions []headgate.Decision
			for i := 0; time.Since(start) < duration && ctx.Err() == nil; i++ {
				client := "client-" + strconv.Itoa(g) + "-" + strconv.Itoa(i%1000)
				for l := range checks {
					checks[l] = headgate.Check{
						Key: client + "/" + strconv.Itoa(l), Owner: client, Limit: headgate.PerSecond(1000), Cost: 1,
					}
				}
				var err error
				if decisions, err = store.TakeAll(ctx, checks, decisions[:0]); err != nil {
					errs[g] = err
					return
				}
				calls.Add(1)
			}
		})
	}
	workers.Wait()
	took := time.Since(start)
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("measure Redis: %w", err)
	}
	return float64(calls.Load()) / took.Seconds(), ctx.Err()
}

// shardTimeout is how much longer than its duration a measurement of Redis may take.
const shardTimeout = 10 * time.Second
