package clienttest

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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func TestRateLimitAppliesTheRules(t *testing.T) {
	at := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	c := newHost(t, now, grpcapi.Config{Now: now}).client(client.Options{})
	ctx := t.Context()
	for want := int64(2); want >= 0; want-- {
		got, err := c.RateLimit(ctx, request("alice", "/api/x"))
		wantAnswer := client.Decision{Passed: true, Limit: 3, Remaining: want, Rule: "per-user", Reset: at.Add(time.Duration(3-want) * 20 * time.Minute)}
		if err != nil || !got.Reset.Equal(wantAnswer.Reset) {
			t.Fatalf("got %+v, %v; want %+v", got, err, wantAnswer)
		}
		got.Reset = wantAnswer.Reset
		if got != wantAnswer {
			t.Errorf("got %+v, want %+v", got, wantAnswer)
		}
	}
	got, err := c.RateLimit(ctx, request("alice", "/api/x"))
	if err != nil || got.Passed || got.RetryAfter != 20*time.Minute || got.HTTPStatus != 429 || got.Reason != headgatev1.Reason_REASON_OVER_LIMIT {
		t.Errorf("got %+v, %v; want it denied for 20 minutes", got, err)
	}
	got, err = c.RateLimit(ctx, client.Request{Rule: "per-user", User: "bob", HasCost: true})
	if err != nil || !got.Passed || got.Remaining != 3 {
		t.Errorf("cost 0: got %+v, %v; want 3 left", got, err)
	}
	got, err = c.RateLimit(ctx, client.Request{Rule: "per-user", User: "bob", HasCost: true, Cost: 5})
	if err != nil || got.Passed || got.RetryAfter != headgate.Never {
		t.Errorf("5 of 3: got %+v, %v; want never", got, err)
	}
	if got, err = c.RateLimit(ctx, request("mallory", "/")); err != nil || got.Passed || got.Reason != headgatev1.Reason_REASON_BLOCKED {
		t.Errorf("got %+v, %v; want it blocked", got, err)
	}
	for range 2 {
		got, err = c.RateLimit(ctx, request("dora", "/delayed"))
	}
	if err != nil || !got.Passed || got.Delay != time.Second {
		t.Errorf("got %+v, %v; want a delay of 1s", got, err)
	}
	var leases []string
	for range 2 {
		if got, err = c.RateLimit(ctx, request("eve", "/jobs")); err != nil || got.Lease == "" {
			t.Fatalf("got %+v, %v; want a lease", got, err)
		}
		leases = append(leases, got.Lease)
	}
	if got, err = c.RateLimit(ctx, request("eve", "/jobs")); err != nil || got.Passed {
		t.Errorf("a third: got %+v, %v; want it denied", got, err)
	}
	if held, ttl, err := c.Renew(ctx, leases[0]); err != nil || !held || ttl <= 0 {
		t.Errorf("renewal: got %v, %v, %v; want it held", held, ttl, err)
	}
	for _, lease := range append(leases, leases...) {
		if err := c.Release(ctx, lease); err != nil {
			t.Error(err)
		}
	}
	if err := c.Release(ctx, "none"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no lease: got %v, want InvalidArgument", err)
	}
	if _, _, err := c.Renew(ctx, "none"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("renewal of no lease: got %v, want InvalidArgument", err)
	}
}

// An invalid call returns its own error and does not affect other calls of its batch.
func TestInvalidCallFailsAlone(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(client.Options{})
	var group sync.WaitGroup
	long := strings.Repeat("a", 2<<20)
	for i := range 64 {
		group.Go(func() {
			for n := range 20 {
				switch i % 5 {
				case 3: // the name may come from the caller's client
					if _, err := c.RateLimit(t.Context(), request("a\xff", "/high")); status.Code(err) != codes.InvalidArgument {
						t.Errorf("not UTF-8: got %v, want InvalidArgument", err)
					}
				case 4:
					if n > 2 { // these are slow
						return
					}
					if _, err := c.RateLimit(t.Context(), request(long, "/high")); status.Code(err) != codes.InvalidArgument {
						t.Errorf("a name of 2 MiB: got %v, want InvalidArgument", err)
					}
				case 0:
					if _, err := c.RateLimit(t.Context(), client.Request{Rule: "none"}); status.Code(err) != codes.NotFound {
						t.Errorf("an unknown rule: got %v, want NotFound", err)
					}
				case 1:
					if _, err := c.RateLimit(t.Context(), client.Request{IP: "home"}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `"home"`) {
						t.Errorf("no address: got %v, want InvalidArgument", err)
					}
				default:
					user := fmt.Sprint("user", i)
					if got, err := c.RateLimit(t.Context(), request(user, "/high")); err != nil || !got.Passed || got.Rule != "high" || got.Degraded {
						t.Errorf("got %+v, %v; want it passed", got, err)
					}
				}
			}
		})
	}
	group.Wait()
	if _, err := c.RateLimit(nil, client.Request{}); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // nil is what is tested
		t.Errorf("no context: got %v", err)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := c.RateLimit(gone, client.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: got %v, want its error", err)
	}
	other, err := client.New(client.Options{Address: h.address, Token: "another-token-of-sixteen", Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for range 10 { // none of them passes
		if got, err := other.RateLimit(t.Context(), request("a", "/")); status.Code(err) != codes.Unauthenticated || got.Passed {
			t.Errorf("another token: got %+v, %v; want Unauthenticated", got, err)
		}
	}
}

func TestOnlyIdempotentCallsAreSentAgain(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	var sent, breaks atomic.Int64
	broken := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		sent.Add(1)
		if breaks.Add(-1) >= 0 {
			return status.Error(codes.Unavailable, "broken")
		}
		return next(ctx, method, q, a, conn, o...)
	})
	c := h.client(client.Options{Dial: []grpc.DialOption{broken}})
	store := c.Store()
	for name, tt := range map[string]struct {
		do   func() error
		safe bool
	}{
		"peek":   {func() error { _, err := store.Peek(t.Context(), perHour("k", 0)); return err }, true},
		"reset":  {func() error { return store.Reset(t.Context(), perHour("k", 0)) }, true},
		"take":   {func() error { _, err := store.Take(t.Context(), perHour("k", 1)); return err }, false},
		"charge": {func() error { _, err := store.Charge(t.Context(), perHour("k", 1)); return err }, false},
		"take all": {func() error {
			_, err := store.TakeAll(t.Context(), []headgate.Check{perHour("k", 1), perHour("l", 1)}, nil)
			return err
		}, false},
	} {
		sent.Store(0)
		breaks.Store(1)
		err := tt.do()
		if tt.safe && (err != nil || sent.Load() != 2) || !tt.safe && (status.Code(err) != codes.Unavailable || sent.Load() != 1) {
			t.Errorf("%s: sent %d times, %v; want it sent again: %v", name, sent.Load(), err, tt.safe)
		}
		sent.Store(0)
		breaks.Store(10)
		if err := tt.do(); status.Code(err) != codes.Unavailable || sent.Load() > 2 {
			t.Errorf("%s, broken twice: sent %d times, %v; want Unavailable after two at most", name, sent.Load(), err)
		}
	}
}
