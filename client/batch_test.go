package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// Many that are large travel in several calls, none of which is more than the service reads.
func TestLargeCallsTravelInSeveral(t *testing.T) {
	c := newHost(t, nil, grpcapi.Config{}).client(Options{})
	large := strings.Repeat("a", 60<<10)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			q := asks(fmt.Sprint("user", i), "/wide")
			q.Attributes["header.x-large"] = large
			if got, err := c.RateLimit(t.Context(), q); err != nil || !got.Passed || got.Degraded {
				t.Errorf("got %+v, %v; want it passed", got, err)
			}
		})
	}
	group.Wait()
}

// calls counts what a client sends.
func counting(calls *atomic.Int64) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		calls.Add(1)
		return next(ctx, method, q, a, conn, o...)
	})
}

func TestCallsTravelTogetherAndNoneIsLost(t *testing.T) {
	var calls atomic.Int64
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(Options{Dial: []grpc.DialOption{counting(&calls)}, MaxBatch: 16})
	store := c.Store()
	const goroutines, each = 64, 20
	var passed, taken atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				got, err := c.RateLimit(t.Context(), asks("shared", "/wide"))
				if err != nil || got.Degraded {
					t.Errorf("got %+v, %v", got, err)
					return
				}
				if got.Passed {
					passed.Add(1)
				}
				// Half of these travel alone, half in threes, over one limit of 1000.
				check := headgate.Check{Key: "k", Limit: headgate.Per(1000, 24*time.Hour), Cost: 1}
				if g%2 == 0 {
					d, err := store.Take(t.Context(), check)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						taken.Add(1)
					}
					continue
				}
				others := []headgate.Check{check, check, check}
				others[1].Key, others[2].Key = fmt.Sprint("g", g, i), fmt.Sprint("h", g, i)
				decisions, err := store.TakeAll(t.Context(), others, nil)
				if err != nil || len(decisions) != 3 {
					t.Errorf("got %v, %v", decisions, err)
					return
				}
				if headgate.Allowed(decisions) {
					taken.Add(1)
				}
			}
		})
	}
	group.Wait()
	if got := passed.Load(); got != goroutines*each {
		t.Errorf("%d passed, want %d", got, goroutines*each)
	}
	if got := taken.Load(); got != 1000 {
		t.Errorf("%d were taken of 1000", got)
	}
	if got := calls.Load(); got > 2*goroutines*each/2 {
		t.Errorf("%d calls for %d decisions: want them to travel together", got, 2*goroutines*each)
	}
}

func TestCallsThatMayNotTravelTogetherDoNot(t *testing.T) {
	var calls atomic.Int64
	c := newHost(t, nil, grpcapi.Config{}).client(Options{Dial: []grpc.DialOption{counting(&calls)}, BatchWait: -1})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := c.RateLimit(t.Context(), asks("a", "/wide")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := calls.Load(); got != 20 {
		t.Errorf("got %d calls, want 20", got)
	}
}

// A gate is a store that answers when it is told to.
type gate struct {
	headgate.Limiter
	entered, open chan struct{}
	gives         atomic.Int64
}

func (g *gate) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	g.entered <- struct{}{}
	<-g.open
	return g.Limiter.Take(ctx, c)
}

func (g *gate) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	g.gives.Add(1)
	return g.Limiter.Give(ctx, c, r)
}

// A caller that stops waiting gets the error of its context at once, other tasks of its batch get their responses, and
// a slot that it would have got is released.
func TestWhoStopsWaitingHoldsNoPlace(t *testing.T) {
	inner := newHost(t, nil, grpcapi.Config{})
	g := &gate{Limiter: inner.store, entered: make(chan struct{}, 10), open: make(chan struct{})}
	h := newHost(t, nil, grpcapi.Config{Store: g, Parallel: 8})
	c := h.client(Options{BatchWait: 10 * time.Millisecond})
	store := c.Store()
	place := headgate.Check{Key: "jobs", Limit: headgate.InFlight(1), Cost: 1}
	var group sync.WaitGroup
	group.Go(func() { // is alone, and under way while the others gather
		if d, err := store.Take(t.Context(), check("first", 1)); err != nil || !d.Allowed {
			t.Errorf("the first: got %+v, %v", d, err)
		}
	})
	<-g.entered
	ctx, end := context.WithCancel(t.Context())
	left := make(chan struct{})
	group.Go(func() {
		defer close(left)
		if _, err := store.Take(ctx, place); !errors.Is(err, context.Canceled) {
			t.Errorf("who left: got %v, want Canceled", err)
		}
	})
	group.Go(func() {
		if d, err := store.Take(t.Context(), check("other", 1)); err != nil || !d.Allowed {
			t.Errorf("who stayed: got %+v, %v", d, err)
		}
	})
	<-g.entered
	<-g.entered
	end()
	<-left // it does not wait for the response
	close(g.open)
	group.Wait()
	until(t, "a place again", func() bool { return g.gives.Load() > 0 })
	until(t, "taken", func() bool {
		d, err := store.Take(t.Context(), place)
		return err == nil && d.Allowed
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	c, err := New(Options{Address: hung(t), Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var closed atomic.Int64
	for range 40 {
		group.Go(func() {
			if _, err := c.Store().Take(t.Context(), check("k", 1)); errors.Is(err, headgate.ErrClosed) {
				closed.Add(1)
			} else {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	until(t, "under way", func() bool {
		c.store.mu.Lock()
		defer c.store.mu.Unlock()
		return c.store.calls > 0
	})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := c.RateLimit(t.Context(), Request{}); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("afterwards: got %v, want ErrClosed", err)
	}
}

// Calls that find all connections busy with others that hang end at their deadline all the same.
func TestThoseWhoWaitForOthersKeepTheirDeadline(t *testing.T) {
	c, err := New(Options{Address: hung(t), Deadline: 100 * time.Millisecond, MaxBatch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var group sync.WaitGroup
	start := time.Now()
	for range 200 {
		group.Go(func() {
			if _, err := c.Store().Take(t.Context(), check("k", 1)); !failed(err) {
				t.Errorf("got %v, want that there was no answer", err)
			}
		})
	}
	group.Wait()
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v, want about 100ms", took)
	}
}
