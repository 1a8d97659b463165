package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/guard"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/service/grpcapi"
)

func asks(user, path string) Request {
	return Request{User: user, Attributes: map[string]string{"path": path}}
}

func TestRateLimitAnswersByTheServicesRules(t *testing.T) {
	at := time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	c := newHost(t, now, grpcapi.Config{Now: now}).client(Options{})
	ctx := patient(t)
	for want := int64(2); want >= 0; want-- {
		got, err := c.RateLimit(ctx, asks("alice", "/api/x"))
		wantAnswer := Answer{Passed: true, Limit: 3, Remaining: want, Rule: "per-user", Reset: at.Add(time.Duration(3-want) * 20 * time.Minute)}
		if err != nil || !got.Reset.Equal(wantAnswer.Reset) {
			t.Fatalf("got %+v, %v; want %+v", got, err, wantAnswer)
		}
		got.Reset = wantAnswer.Reset
		if got != wantAnswer {
			t.Errorf("got %+v, want %+v", got, wantAnswer)
		}
	}
	got, err := c.RateLimit(ctx, asks("alice", "/api/x"))
	if err != nil || got.Passed || got.RetryAfter != 20*time.Minute || got.HTTPStatus != 429 || got.Reason != headgatev1.Reason_REASON_OVER_LIMIT {
		t.Errorf("got %+v, %v; want it denied for 20 minutes", got, err)
	}
	got, err = c.RateLimit(ctx, Request{Rule: "per-user", User: "bob", HasCost: true})
	if err != nil || !got.Passed || got.Remaining != 3 {
		t.Errorf("a look: got %+v, %v; want 3 left", got, err)
	}
	got, err = c.RateLimit(ctx, Request{Rule: "per-user", User: "bob", HasCost: true, Cost: 5})
	if err != nil || got.Passed || got.RetryAfter != headgate.Never {
		t.Errorf("5 of 3: got %+v, %v; want never", got, err)
	}
	if got, err = c.RateLimit(ctx, asks("mallory", "/")); err != nil || got.Passed || got.Reason != headgatev1.Reason_REASON_BLOCKED {
		t.Errorf("got %+v, %v; want it blocked", got, err)
	}
	for range 2 {
		got, err = c.RateLimit(ctx, asks("dora", "/line"))
	}
	if err != nil || !got.Passed || got.Delay != time.Second {
		t.Errorf("got %+v, %v; want it after a second", got, err)
	}
	var leases []string
	for range 2 {
		if got, err = c.RateLimit(ctx, asks("eve", "/jobs")); err != nil || got.Lease == "" {
			t.Fatalf("got %+v, %v; want a lease", got, err)
		}
		leases = append(leases, got.Lease)
	}
	if got, err = c.RateLimit(ctx, asks("eve", "/jobs")); err != nil || got.Passed {
		t.Errorf("a third: got %+v, %v; want it denied", got, err)
	}
	for _, lease := range append(leases, leases...) {
		if err := c.Release(ctx, lease); err != nil {
			t.Error(err)
		}
	}
	if err := c.Release(ctx, "none"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no lease: got %v, want InvalidArgument", err)
	}
}

// What is wrong with one call is its own error, also if it travels with others.
func TestWhatIsWrongIsAnErrorOfThatCall(t *testing.T) {
	c := newHost(t, nil, grpcapi.Config{}).client(Options{})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 20 {
				switch i % 5 {
				case 3: // what a client of the caller's may have chosen
					if _, err := c.RateLimit(t.Context(), asks("a\xff", "/wide")); status.Code(err) != codes.InvalidArgument {
						t.Errorf("no UTF-8: got %v, want InvalidArgument", err)
					}
				case 4:
					if _, err := c.RateLimit(t.Context(), asks(strings.Repeat("a", 2<<20), "/wide")); status.Code(err) != codes.InvalidArgument {
						t.Errorf("a name of 2 MiB: got %v, want InvalidArgument", err)
					}
				case 0:
					if _, err := c.RateLimit(t.Context(), Request{Rule: "none"}); status.Code(err) != codes.NotFound {
						t.Errorf("an unknown rule: got %v, want NotFound", err)
					}
				case 1:
					if _, err := c.RateLimit(t.Context(), Request{IP: "home"}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `"home"`) {
						t.Errorf("no address: got %v, want InvalidArgument", err)
					}
				default:
					user := fmt.Sprint("user", i)
					if got, err := c.RateLimit(t.Context(), asks(user, "/wide")); err != nil || !got.Passed || got.Rule != "wide" || got.Degraded {
						t.Errorf("got %+v, %v; want it passed", got, err)
					}
				}
			}
		})
	}
	group.Wait()
	if _, err := c.RateLimit(nil, Request{}); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("no context: got %v", err)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := c.RateLimit(gone, Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: got %v, want its error", err)
	}
	other, err := New(Options{Address: c.options.Address, Token: "another-token-of-sixteen", Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for range 10 { // not one of them lets pass
		if got, err := other.RateLimit(t.Context(), asks("a", "/")); status.Code(err) != codes.Unauthenticated || got.Passed {
			t.Errorf("another token: got %+v, %v; want Unauthenticated", got, err)
		}
	}
}

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
	const goroutines, each = 64, 50
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

// A hung is a service that accepts and never answers.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// A log that tests read.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestAServiceThatDoesNotAnswerIsDecidedByPolicy(t *testing.T) {
	for policy, passes := range map[headgate.Policy]bool{headgate.Open: true, headgate.Closed: false} {
		t.Run(policy.String(), func(t *testing.T) {
			log := new(book)
			c, err := New(Options{
				Address: hung(t), Deadline: 20 * time.Millisecond, OnFailure: policy, Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			var group sync.WaitGroup
			start := time.Now()
			for range 16 {
				group.Go(func() {
					for range 20 {
						got, err := c.RateLimit(t.Context(), asks("a", "/"))
						if err != nil || got.Passed != passes || !got.Degraded {
							t.Errorf("got %+v, %v; want passed=%v, degraded", got, err, passes)
						}
						if !passes && (got.HTTPStatus != 503 || got.RetryAfter <= 0) {
							t.Errorf("got %+v, want a 503 that says when", got)
						}
					}
				})
			}
			group.Wait()
			// One by one at their deadline they would take 20 times 20 ms; with the circuit open nobody waits.
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			until(t, "in the log", func() bool { return strings.Contains(log.String(), "does not answer") })
		})
	}
}

func TestAServiceThatComesBackIsAskedAgain(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(Options{Deadline: 20 * time.Second})
	if got, err := c.RateLimit(t.Context(), asks("a", "/wide")); err != nil || got.Degraded {
		t.Fatalf("got %+v, %v", got, err)
	}
	address := h.address
	h.stop()
	until(t, "degraded", func() bool {
		got, err := c.RateLimit(t.Context(), asks("a", "/wide"))
		return err == nil && got.Degraded
	})
	h.start(address)
	until(t, "asked again", func() bool {
		got, err := c.RateLimit(t.Context(), asks("a", "/wide"))
		return err == nil && !got.Degraded && got.Passed
	})
}

func TestTheGuardDecidesWhenTheServiceIsAway(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	g, err := h.client(Options{}).Limiter(guard.Options{OnEvent: func(guard.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	ask := func(policy headgate.Policy) headgate.Decision {
		t.Helper()
		check := check("k", 1)
		check.OnFailure = policy
		d, err := g.Take(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	until(t, "asked", func() bool { d := ask(headgate.Closed); return !d.Degraded })
	h.stop()
	until(t, "degraded", func() bool { return ask(headgate.Open).Degraded })
	if d := ask(headgate.Open); !d.Allowed {
		t.Errorf("open: got %+v, want it allowed", d)
	}
	if d := ask(headgate.Closed); d.Allowed {
		t.Errorf("closed: got %+v, want it denied", d)
	}
	h.start(h.address)
	until(t, "exact again", func() bool { return !ask(headgate.Open).Degraded })
}

// Receipts of a guard in the service come through a guard here and back.
func TestReceiptsOfAGuardInTheServiceFindTheirWayBack(t *testing.T) {
	for _, at := range []int64{-1, -2, -1_800_000_000_000_000, 0, 1, 1_800_000_000_000_000} {
		packed := packAt(at)
		if packed < 0 || at >= 0 && packed != at || unpackAt(packed) != at {
			t.Errorf("%d: packed %d, back %d", at, packed, unpackAt(packed))
		}
	}
	store := &degradedStore{}
	h := newHost(t, nil, grpcapi.Config{Store: store})
	g, err := h.client(Options{}).Limiter(guard.Options{Deadline: patience, DenyCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	d, err := g.Take(t.Context(), check("k", 1))
	if err != nil || !d.Degraded || !d.Allowed {
		t.Fatalf("got %+v, %v; want what the service's guard decided", d, err)
	}
	if err := g.Give(t.Context(), check("k", 1), d.Receipt); err != nil {
		t.Fatal(err)
	}
	if store.given != (headgate.Receipt{At: -77, Units: 1}) {
		t.Errorf("the service got %+v, want its own receipt", store.given)
	}
}

// A degradedStore answers as a guard does whose store is away.
type degradedStore struct {
	headgate.Limiter
	given headgate.Receipt
}

func (*degradedStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{Allowed: true, Degraded: true, Limit: 3, Remaining: 2, Receipt: headgate.Receipt{At: -77, Units: 1}}, nil
}

func (s *degradedStore) Give(_ context.Context, _ headgate.Check, r headgate.Receipt) error {
	s.given = r
	return nil
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

// Who stops waiting gets the error of his context at once, those who travel with him get their answers, and a place that
// he would have got is given back.
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
	<-left // he does not wait for the answer
	close(g.open)
	group.Wait()
	until(t, "a place again", func() bool { return g.gives.Load() > 0 })
	until(t, "taken", func() bool {
		d, err := store.Take(t.Context(), place)
		return err == nil && d.Allowed
	})
}

func TestWhatIsSafeIsSentAgainAndNothingElse(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	var sent, breaks atomic.Int64
	broken := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		sent.Add(1)
		if breaks.Add(-1) >= 0 {
			return status.Error(codes.Unavailable, "broken")
		}
		return next(ctx, method, q, a, conn, o...)
	})
	c := h.client(Options{Dial: []grpc.DialOption{broken}})
	store := c.Store()
	for name, tt := range map[string]struct {
		do   func() error
		safe bool
	}{
		"a look": {func() error { _, err := store.Take(t.Context(), check("k", 0)); return err }, true},
		"reset":  {func() error { return store.Reset(t.Context(), check("k", 0)) }, true},
		"take":   {func() error { _, err := store.Take(t.Context(), check("k", 1)); return err }, false},
		"charge": {func() error { _, err := store.Charge(t.Context(), check("k", 1)); return err }, false},
		"take none": {func() error {
			_, err := store.TakeAll(t.Context(), []headgate.Check{check("k", 0), check("l", 0)}, nil)
			return err
		}, true},
		"take some": {func() error {
			_, err := store.TakeAll(t.Context(), []headgate.Check{check("k", 0), check("l", 1)}, nil)
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
			t.Errorf("%s, broken for good: sent %d times, %v; want Unavailable after two at most", name, sent.Load(), err)
		}
	}
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

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":     {},
		"a short time":   {Address: "a:1", Deadline: time.Microsecond},
		"a long wait":    {Address: "a:1", BatchWait: time.Second},
		"no batch":       {Address: "a:1", MaxBatch: -1},
		"a local policy": {Address: "a:1", OnFailure: headgate.Local},
		"a broken token": {Address: "a:1", Token: "two\nlines"},
	} {
		if c, err := New(o); err == nil {
			t.Errorf("%s: got no error", name)
			_ = c.Close()
		}
	}
}
