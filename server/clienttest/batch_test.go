package clienttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// No batch is larger than the service reads.
func TestLargeRequestsAreSplitIntoBatches(t *testing.T) {
	c := newHost(t, nil, grpcapi.Config{}).client(client.Options{})
	large := strings.Repeat("a", 60<<10)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			q := request(fmt.Sprint("user", i), "/high")
			q.Attributes["header.x-large"] = large
			if got, err := c.RateLimit(t.Context(), q); err != nil || !got.Passed || got.Degraded {
				t.Errorf("got %+v, %v; want it passed", got, err)
			}
		})
	}
	group.Wait()
}

// counting counts the unary calls of a client.
func counting(calls *atomic.Int64) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		calls.Add(1)
		return next(ctx, method, q, a, conn, o...)
	})
}

func TestConcurrentCallsAreBatchedAndAllCounted(t *testing.T) {
	var calls atomic.Int64
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(client.Options{Dial: []grpc.DialOption{counting(&calls)}, MaxBatch: 16})
	store := c.Store()
	const goroutines, each = 64, 20
	var passed, taken atomic.Int64
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				got, err := c.RateLimit(t.Context(), request("shared", "/high"))
				if err != nil || got.Degraded {
					t.Errorf("got %+v, %v", got, err)
					return
				}
				if got.Passed {
					passed.Add(1)
				}
				// Half of the goroutines take one check, half take three at once, from one limit of 1000.
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
		t.Errorf("%d units were taken, want 1000", got)
	}
	if got := calls.Load(); got > 2*goroutines*each/2 {
		t.Errorf("%d calls for %d decisions: want them batched", got, 2*goroutines*each)
	}
}

func TestNegativeBatchWaitSendsEveryCallAlone(t *testing.T) {
	var calls atomic.Int64
	c := newHost(t, nil, grpcapi.Config{}).client(client.Options{Dial: []grpc.DialOption{counting(&calls)}, BatchWait: -1})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := c.RateLimit(t.Context(), request("a", "/high")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := calls.Load(); got != 20 {
		t.Errorf("got %d calls, want 20", got)
	}
}

// A gate is a store whose Take waits until open is closed.
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
func TestCanceledCallReleasesItsSlot(t *testing.T) {
	inner := newHost(t, nil, grpcapi.Config{})
	g := &gate{Limiter: inner.store, entered: make(chan struct{}, 10), open: make(chan struct{})}
	h := newHost(t, nil, grpcapi.Config{Store: g, Parallel: 8})
	c := h.client(client.Options{BatchWait: 10 * time.Millisecond})
	store := c.Store()
	place := headgate.Check{Key: "jobs", Limit: headgate.InFlight(1), Cost: 1}
	var group sync.WaitGroup
	group.Go(func() { // is under way while the others are batched
		if d, err := store.Take(t.Context(), perHour("first", 1)); err != nil || !d.Allowed {
			t.Errorf("first: got %+v, %v", d, err)
		}
	})
	<-g.entered
	ctx, end := context.WithCancel(t.Context())
	left := make(chan struct{})
	group.Go(func() {
		defer close(left)
		if _, err := store.Take(ctx, place); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: got %v, want Canceled", err)
		}
	})
	group.Go(func() {
		if d, err := store.Take(t.Context(), perHour("other", 1)); err != nil || !d.Allowed {
			t.Errorf("other: got %+v, %v", d, err)
		}
	})
	<-g.entered
	<-g.entered
	end()
	<-left // it does not wait for the response
	close(g.open)
	group.Wait()
	await.True(t, "the slot is released", func() bool { return g.gives.Load() > 0 })
	await.True(t, "the slot is taken again", func() bool {
		d, err := store.Take(t.Context(), place)
		return err == nil && d.Allowed
	})
}

// A stopping server responds to the batches that it has read. Other batches are sent to the next server.
func TestNoCallIsLostWhenAServerStops(t *testing.T) {
	first, second := newHost(t, nil, grpcapi.Config{}), newHost(t, nil, grpcapi.Config{})
	var at atomic.Pointer[string]
	at.Store(&first.address)
	c := first.client(client.Options{Dial: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *at.Load())
	})}})
	var asked atomic.Int64
	var stop atomic.Bool
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for !stop.Load() {
				if got, err := c.RateLimit(t.Context(), request("a", "/high")); err != nil || !got.Passed || got.Degraded {
					t.Errorf("after %d: got %+v, %v", asked.Load(), got, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	more := func(n int64) {
		await.True(t, "more calls", func() bool { return asked.Load() > n || t.Failed() })
	}
	more(500)
	at.Store(&second.address)
	first.stop()
	more(asked.Load() + 500)
	stop.Store(true)
	group.Wait()
}
