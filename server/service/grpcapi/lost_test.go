package grpcapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A lateStore responds only after the caller has gone.
type lateStore struct {
	headgate.Limiter
	late    atomic.Bool
	entered chan struct{}
	answers chan bool // whether it allowed a request whose response is lost
}

func (s *lateStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if !s.late.Load() {
		return s.Limiter.Take(ctx, c)
	}
	s.entered <- struct{}{}
	<-ctx.Done()
	d, err := s.Limiter.Take(context.WithoutCancel(ctx), c)
	s.answers <- d.Allowed
	return d, err
}

func (s *lateStore) TakeAll(ctx context.Context, c []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	for i := range c {
		d, err := s.Take(ctx, c[i])
		if err != nil {
			return dst, err
		}
		dst = append(dst, d)
	}
	return dst, nil
}

// A concurrency slot whose response could not be sent is freed at once, not when it expires.
func TestSlotsOfUndeliveredResponsesAreFreed(t *testing.T) {
	jobs := ask("kim", "/jobs")
	batch := &headgatev1.BatchRateLimitRequest{Requests: []*headgatev1.RateLimitRequest{jobs}}
	held := operation(take, "jobs")
	held.Checks[0].Limit = &headgatev1.Limit{Algorithm: headgatev1.Algorithm_ALGORITHM_CONCURRENCY, Count: 2, TtlNs: 3_600_000_000_000}
	// Each calls until the context ends.
	ways := map[string]func(context.Context, *grpc.ClientConn){
		"a call": func(ctx context.Context, conn *grpc.ClientConn) {
			_, _ = headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, jobs)
		},
		"a batch": func(ctx context.Context, conn *grpc.ClientConn) {
			_, _ = headgatev1.NewRateLimiterClient(conn).BatchRateLimit(ctx, batch)
		},
		"a stream": func(ctx context.Context, conn *grpc.ClientConn) {
			if s, err := headgatev1.NewRateLimiterClient(conn).Stream(ctx); err == nil && s.Send(&headgatev1.StreamRequest{Request: jobs}) == nil {
				_, _ = s.Recv()
			}
		},
		"a stream of batches": func(ctx context.Context, conn *grpc.ClientConn) {
			if s, err := headgatev1.NewRateLimiterClient(conn).BatchStream(ctx); err == nil && s.Send(batch) == nil {
				_, _ = s.Recv()
			}
		},
		"an operation of the store": func(ctx context.Context, conn *grpc.ClientConn) {
			_, _ = headgatev1.NewStoreClient(conn).Do(ctx, &headgatev1.DoRequest{Operations: []*headgatev1.Operation{held}})
		},
	}
	for name, call := range ways {
		for _, parallel := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d at once", name, parallel), func(t *testing.T) {
				store := &lateStore{Limiter: newStore(t, nil), entered: make(chan struct{}, 1), answers: make(chan bool, 1)}
				_, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText)), Store: store, Parallel: parallel})
				conn := dial(t, address)
				left := func() int64 {
					if name == "an operation of the store" {
						look := operation(headgatev1.Verb_VERB_PEEK, "jobs")
						look.Checks[0].Limit, look.Checks[0].Cost = held.Checks[0].Limit, 0
						return do(t, headgatev1.NewStoreClient(conn), look)[0].Decisions[0].Remaining
					}
					look := ask("kim", "/jobs")
					look.Cost = new(int64)
					got, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), look)
					if err != nil {
						t.Fatal(err)
					}
					return got.RemainingRequests
				}
				store.late.Store(true)
				ctx, cancel := context.WithCancel(patient(t))
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					call(ctx, conn)
				}()
				<-store.entered
				cancel()
				<-gone
				if !<-store.answers {
					t.Fatal("no place was taken")
				}
				store.late.Store(false)
				until(t, "free again", func() bool { return left() == 2 })
			})
		}
	}
}

// An idle stream holds no pooled memory.
func TestIdleStreamsHoldNoPooledMemory(t *testing.T) {
	s, address := start(t, Config{})
	var made atomic.Int64
	for pool, fresh := range map[*func() any]func() any{&s.batches.New: s.batches.New, &s.streamMessages.New: s.streamMessages.New} {
		*pool = func() any {
			made.Add(1)
			return fresh()
		}
	}
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	const streams = 100
	for range streams {
		of, err := limiter.BatchStream(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := of.Send(&headgatev1.BatchRateLimitRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := of.Recv(); err != nil {
			t.Fatal(err)
		}
		single, err := limiter.Stream(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := single.Send(&headgatev1.StreamRequest{Request: ask("kim", "/nothing")}); err != nil {
			t.Fatal(err)
		}
		if _, err := single.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	// Pools forget some, under the race detector a quarter.
	if got := made.Load(); got > streams {
		t.Errorf("%d idle streams hold what was made %d times, want it used again", 2*streams, got)
	}
}
