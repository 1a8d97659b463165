package grpclimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

const byMethod = "/shop.Cart/Add"

// called calls an interceptor of each kind, and returns the codes.
func called(ctx context.Context, l *grpclimit.KeyLimiter, handler func()) (unary, stream error) {
	_, unary = l.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: byMethod}, func(context.Context, any) (any, error) {
		handler()
		return nil, nil
	})
	stream = l.Stream(nil, contextStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: byMethod}, func(any, grpc.ServerStream) error {
		handler()
		return nil
	})
	return unary, stream
}

// contextStream is a stream with only a context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s contextStream) Context() context.Context { return s.ctx }

func always(key string, limit headgate.Limit) func(context.Context, string) (string, headgate.Limit) {
	return func(context.Context, string) (string, headgate.Limit) { return key, limit }
}

func TestByLimitsEachKey(t *testing.T) {
	clock := limittest.NewClock()
	store := memstore.MustNew(memstore.Options{Now: clock.Now})
	defer store.Close()
	var methods []string
	l := grpclimit.By(store, func(_ context.Context, method string) (string, headgate.Limit) {
		methods = append(methods, method)
		return "alice", headgate.PerMinute(2)
	})
	handled := 0
	if unary, stream := called(t.Context(), l, func() { handled++ }); unary != nil || stream != nil || handled != 2 {
		t.Errorf("two calls: got %v, %v with %d handled, want both", unary, stream, handled)
	}
	unary, stream := called(t.Context(), l, func() { handled++ })
	for _, err := range []error{unary, stream} {
		st := status.Convert(err)
		if st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
			t.Errorf("over the limit: got %v with %d details, want ResourceExhausted with one", st, len(st.Details()))
			continue
		}
		if info, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || info.GetRetryDelay().AsDuration() != 30*time.Second {
			t.Errorf("over the limit: got %v, want to retry in 30s", st.Details()[0])
		}
	}
	if handled != 2 || methods[0] != byMethod {
		t.Errorf("got %d handled, method %s, want 2 and %s", handled, methods[0], byMethod)
	}
}

func TestByLimitsCallsWithoutAKeyTogether(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	l := grpclimit.By(store, always("", headgate.PerHour(1)))
	if unary, stream := called(t.Context(), l, func() {}); unary != nil || status.Code(stream) != codes.ResourceExhausted {
		t.Errorf("got %v, %v, want one call allowed", unary, stream)
	}
}

func TestByExemptsOnlyExempt(t *testing.T) {
	l := grpclimit.By(limittest.Denying(time.Second), always("alice", grpclimit.Exempt))
	if unary, stream := called(t.Context(), l, func() {}); unary != nil || stream != nil {
		t.Errorf("Exempt: got %v, %v, want both allowed", unary, stream)
	}
	for _, test := range []struct {
		name, key string
		limit     headgate.Limit
		want      codes.Code
	}{
		{"the zero Limit, as of a mistyped plan", "alice", headgate.Limit{}, codes.Unavailable},
		{"a long key", strings.Repeat("k", headgate.MaxKeyBytes+1), headgate.PerHour(9), codes.InvalidArgument},
	} {
		l := grpclimit.By(limittest.Allowing(), always(test.key, test.limit))
		unary, stream := called(t.Context(), l, func() {})
		if status.Code(unary) != test.want || status.Code(stream) != test.want {
			t.Errorf("%s: got %v, %v, want %v", test.name, unary, stream, test.want)
		}
	}
}

func TestByRenewsASlotWhileTheHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		l := grpclimit.By(store, always("alice", headgate.MustParseLimit("1 concurrent ttl 1s")))
		unary, stream := called(t.Context(), l, func() {
			time.Sleep(10 * time.Second)
			if nested, _ := called(t.Context(), l, func() {}); status.Code(nested) != codes.ResourceExhausted {
				t.Errorf("after ten TTLs: got %v for another call, want ResourceExhausted", nested)
			}
		})
		if unary != nil || stream != nil {
			t.Errorf("got %v, %v, want one after the other", unary, stream)
		}
	})
}

func TestByDelaysUnderALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		l := grpclimit.By(store, always("alice", headgate.MustParseLimit("1/s leaky-bucket burst 5")))
		start := time.Now()
		unary, stream := called(t.Context(), l, func() {})
		if unary != nil || stream != nil || time.Since(start) != time.Second {
			t.Errorf("got %v, %v after %v, want two calls after 1s", unary, stream, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		unary, stream = called(ctx, l, func() {})
		if status.Code(unary) != codes.DeadlineExceeded || status.Code(stream) != codes.DeadlineExceeded {
			t.Errorf("with too early a deadline: got %v, %v, want DeadlineExceeded", unary, stream)
		}
	})
}

func TestByLogsFaultsAtMostOnceASecond(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		l := grpclimit.By(failingLimiter{err: headgate.ErrOverloaded}, always("alice", headgate.PerHour(1)))
		for i := range 101 {
			if i == 100 {
				time.Sleep(time.Second)
			}
			unary, stream := called(t.Context(), l, func() {})
			if status.Code(unary) != codes.Unavailable || status.Code(stream) != codes.Unavailable {
				t.Errorf("call %d: got %v, %v, want Unavailable", i, unary, stream)
			}
		}
	})
	if got := strings.Count(log.String(), "refuse "+byMethod); got != 2 {
		t.Errorf("got %d lines for 202 calls in a second, want 2:\n%s", got, log.String())
	}
}

func TestByHoldsASlotUntilTheHandlerReturns(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	l := grpclimit.By(store, always("alice", headgate.InFlight(1)))
	inside := 0
	unary, stream := called(t.Context(), l, func() {
		nested, _ := called(t.Context(), l, func() { inside++ })
		if status.Code(nested) != codes.ResourceExhausted {
			t.Errorf("while one is in flight: got %v, want ResourceExhausted", nested)
		}
	})
	if unary != nil || stream != nil || inside != 0 {
		t.Errorf("got %v, %v with %d inside, want one after the other", unary, stream, inside)
	}
}

func TestByFailsOpenExceptForMistakes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want codes.Code
	}{
		{errors.New("connection refused"), codes.OK},
		{headgate.ErrFull, codes.OK},
		{headgate.ErrClosed, codes.Unavailable},
		{headgate.ErrOverloaded, codes.Unavailable},
	} {
		l := grpclimit.By(failingLimiter{err: test.err}, always("alice", headgate.PerHour(1)))
		if unary, stream := called(t.Context(), l, func() {}); status.Code(unary) != test.want || status.Code(stream) != test.want {
			t.Errorf("%v: got %v, %v, want %v", test.err, unary, stream, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := grpclimit.By(limittest.Allowing(), always("alice", headgate.PerHour(1)))
	if unary, _ := called(ctx, l, func() {}); status.Code(unary) != codes.Canceled {
		t.Errorf("canceled: got %v, want Canceled", unary)
	}
}

// failingLimiter fails.
type failingLimiter struct {
	headgate.Limiter
	err error
}

func (f failingLimiter) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, f.err
}
