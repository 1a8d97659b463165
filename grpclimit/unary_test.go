package grpclimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

const method = "/grpc.testing.TestService/EmptyCall"

// only returns the one value of a name, or what is there instead.
func only(md metadata.MD, name string) string { return strings.Join(md.Get(name), " | ") }

func TestCallsAreToldOfTheirLimits(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Key: key("api_key"), Limits: limits("2/m")}, grpclimit.Config{})
	a := g.call(t, "x-api-key", "alice")
	if a.err != nil {
		t.Fatal(a.err)
	}
	for name, want := range map[string]string{
		"ratelimit-policy": `"a";q=2;w=60`, "ratelimit": `"a";r=1;t=30`,
		"x-ratelimit-limit": "2", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "1767225630", "retry-after": "",
	} {
		if got := only(a.header, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestCallsOverTheLimitAreResourceExhausted(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Key: key("api_key"), Limits: []rules.Limit{
		{Limit: headgate.PerMinute(2)}, {Name: "hourly", Limit: headgate.PerHour(3)},
	}}, grpclimit.Config{})
	for range 2 {
		if a := g.call(t, "x-api-key", "alice"); a.err != nil {
			t.Fatal(a.err)
		}
	}
	g.clock.Advance(500 * time.Millisecond)
	a := g.call(t, "x-api-key", "alice")
	st := status.Convert(a.err)
	if st.Code() != codes.ResourceExhausted || st.Message() != "over the limit" {
		t.Errorf("got %v, want ResourceExhausted: over the limit", st)
	}
	if got, want := details(st), `retry in 29.5s, a/1: 2/m`; got != want {
		t.Errorf("details %s, want %s", got, want)
	}
	for name, want := range map[string]string{
		"ratelimit-policy": `"a/1";q=2;w=60, "a/hourly";q=3;w=3600`, "ratelimit": `"a/1";r=0;t=30, "a/hourly";r=1;t=30`,
		"x-ratelimit-limit": "2", "x-ratelimit-remaining": "0", "retry-after": "30",
	} {
		if got := only(a.trailer, name); got != want {
			t.Errorf("trailer %s: got %q, want %q", name, got, want)
		}
	}
	if a := g.call(t, "x-api-key", "bob"); a.err != nil {
		t.Errorf("another client: %v", a.err)
	}
	if n := g.service.calls.Load(); n != 3 {
		t.Errorf("the service was called %d times, want 3: not for who is denied", n)
	}
	g.clock.Advance(29500 * time.Millisecond)
	if a := g.call(t, "x-api-key", "alice"); a.err != nil {
		t.Errorf("when it was told to come back: %v", a.err)
	}
}

// details writes the details of a status.
func details(st *status.Status) string {
	var list []string
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			list = append(list, "retry in "+d.GetRetryDelay().AsDuration().String())
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				list = append(list, v.GetSubject()+": "+v.GetDescription())
			}
		default:
			list = append(list, "something else")
		}
	}
	return strings.Join(list, ", ")
}

func TestEveryVerdictHasItsCode(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rule    rules.Rule // the zero Rule means none
		away    bool
		md      []string
		code    codes.Code
		message string
		details string
	}{
		{
			name: "status 503", rule: rules.Rule{ID: "a", Limits: limits("1/m"), Status: 503},
			code: codes.Unavailable, message: "over the limit", details: "retry in 1m0s, a: 1/m",
		},
		{
			name: "dropped", rule: rules.Rule{ID: "a", Limits: limits("1/m"), OnLimit: rules.OnLimit{Action: rules.Drop}},
			code: codes.Unavailable,
		},
		{
			name: "blocked", rule: rules.Rule{ID: "a", Block: true},
			code: codes.PermissionDenied, message: "blocked",
		},
		{
			name: "unregistered", rule: rules.Rule{
				ID: "a", Key: key("ip"), Limits: limits("1/s"), Unregistered: rules.UnregisteredDeny,
			},
			code: codes.PermissionDenied, message: "the client is not registered",
		},
		{
			name: "unidentified", rule: rules.Rule{ID: "a", Key: key("user"), Limits: limits("1/s"), Fallback: rules.FallbackDeny},
			code: codes.Unauthenticated, message: "the client is not identified",
		},
		{
			name: "two names", rule: rules.Rule{
				ID: "a", Key: key("header.x-tenant"), Limits: limits("1/s"), Fallback: rules.FallbackSkip,
			}, md: []string{"x-tenant", "one", "x-tenant", "two"},
			code: codes.InvalidArgument, message: "the client's identity is ambiguous: an attribute has several values or readings",
		},
		{
			name: "never", rule: rules.Rule{
				ID: "a", Limits: limits("5/s"), Cost: rules.Cost{Header: "x-cost", Min: 1, Max: 10},
			}, md: []string{"x-cost", "6"},
			code: codes.ResourceExhausted, message: "the call costs more than the limit can ever grant", details: "a: 5/s",
		},
		{
			name: "the store is away", rule: rules.Rule{
				ID: "a", Limits: limits("1/s"), OnFailure: headgate.Closed,
			}, away: true,
			code: codes.Unavailable, message: "the limits cannot be checked right now", details: "retry in 1s, a: 1/s",
		},
		{
			name: "the store is away and that is no matter", rule: rules.Rule{ID: "a", Limits: limits("1/s")}, away: true,
			code: codes.OK,
		},
		{
			name: "malformed", md: []string{"x-api-key", "one", "x-api-key", "two"},
			code: codes.InvalidArgument, message: "malformed request: API key: want one key; there are several that differ",
		},
		{
			name: "in the shadow", rule: rules.Rule{ID: "a", Limits: limits("1/h"), OnLimit: rules.OnLimit{Action: rules.Shadow}},
			code: codes.OK,
		},
		{
			name: "by method", rule: blockWhen("path", method),
			code: codes.PermissionDenied, message: "blocked",
		},
		{
			name: "by another method", rule: blockWhen("path", "/grpc.testing.TestService/Other"),
			code: codes.OK,
		},
		{
			name: "by authority", rule: blockWhen("host", "api.example.com"),
			code: codes.PermissionDenied, message: "blocked",
		},
		{
			name: "by address", rule: blockWhen("ip", "127.0.0.0/8"),
			code: codes.PermissionDenied, message: "blocked",
		},
		{
			name: "by metadata", rule: blockWhen("header.x-plan", "free"), md: []string{"X-Plan", "free"},
			code: codes.PermissionDenied, message: "blocked",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, tt.rule, grpclimit.Config{})
			g.call(t, tt.md...)
			g.store.Unreachable.Store(tt.away)
			a := g.call(t, tt.md...)
			st := status.Convert(a.err)
			if st.Code() != tt.code || st.Message() != tt.message || details(st) != tt.details {
				t.Errorf("got %v %q (%s), want %v %q (%s)", st.Code(), st.Message(), details(st), tt.code, tt.message, tt.details)
			}
			if tt.name == "dropped" && only(a.trailer, "ratelimit") != "" {
				t.Errorf("the trailer says %v, want nothing", a.trailer)
			}
		})
	}
}

func TestDialectsCanBeTurnedOff(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Limits: limits("1/m")}, grpclimit.Config{Fields: httplimit.Fields{NoRateLimit: true, ResetDelta: true}})
	g.call(t)
	a := g.call(t)
	if got := only(a.trailer, "ratelimit") + only(a.trailer, "ratelimit-policy"); got != "" {
		t.Errorf("RateLimit says %q, want nothing", got)
	}
	if got := only(a.trailer, "x-ratelimit-reset"); got != "60" {
		t.Errorf("X-RateLimit-Reset %q, want 60", got)
	}
}

func TestDelayedCallsAreServedInTurn(t *testing.T) {
	g := newTimedGate(t, delayed("10/s burst 1", 5*time.Second), grpclimit.Config{})
	start := time.Now()
	for range 4 {
		if a := g.call(t); a.err != nil {
			t.Fatal(a.err)
		}
	}
	if got := time.Since(start); got < 300*time.Millisecond {
		t.Errorf("four calls took %v, want at least 300ms at ten a second", got)
	}
}

func TestCallsThatAreGivenUpWhileDelayedAreNotServed(t *testing.T) {
	g := newTimedGate(t, delayed("1/m burst 1", 5*time.Minute), grpclimit.Config{})
	g.call(t)
	for _, tt := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		want codes.Code
	}{
		{"its deadline is too short", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Second)
		}, codes.DeadlineExceeded},
		{"it is cancelled", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for g.engine.Waiting() == 0 {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			return ctx, cancel
		}, codes.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := tt.ctx()
			defer cancel()
			_, err := g.client.EmptyCall(ctx, &grpc_testing.Empty{})
			if got := status.Code(err); got != tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			await.True(t, "nobody waits", func() bool { return g.engine.Waiting() == 0 })
		})
	}
	if n := g.service.calls.Load(); n != 1 {
		t.Errorf("%d were served, want the first only", n)
	}
}

var byTokens = rules.Rule{
	ID: "tokens", Limits: limits("1000/h"), Cost: rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 100},
}

func TestCostThatTheResponseSaysIsSettled(t *testing.T) {
	used := func(n string) metadata.MD { return metadata.Pairs("x-tokens-used", n) }
	for _, tt := range []struct {
		name  string
		unary func(context.Context) error
		left  string // after it, less the estimate of who looks
	}{
		{"in the header", func(ctx context.Context) error { return grpc.SetHeader(ctx, used("250")) }, "650"},
		{"in a header that is sent", func(ctx context.Context) error { return grpc.SendHeader(ctx, used("5")) }, "895"},
		{"in the trailer", func(ctx context.Context) error { return grpc.SetTrailer(ctx, used("250")) }, "650"},
		{"in the trailer, which knows better", func(ctx context.Context) error {
			return errors.Join(grpc.SetHeader(ctx, used("1")), grpc.SetTrailer(ctx, used("250")))
		}, "650"},
		{"nowhere", func(context.Context) error { return nil }, "800"},
		{"before an error", func(ctx context.Context) error {
			return errors.Join(grpc.SetTrailer(ctx, used("250")), errors.New("no"))
		}, "650"},
		{"before a panic", func(ctx context.Context) error {
			_ = grpc.SetTrailer(ctx, used("250"))
			panic("no")
		}, "650"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, byTokens, grpclimit.Config{})
			g.service.unary = tt.unary
			a := g.call(t)
			if said := only(a.header, "x-tokens-used") + only(a.trailer, "x-tokens-used"); tt.left != "800" && said == "" {
				t.Errorf("the client sees nothing of what was said")
			}
			g.service.unary = nil
			if got := only(g.call(t).header, "x-ratelimit-remaining"); got != tt.left {
				t.Errorf("left of 1000: %s, want %s", got, tt.left)
			}
			if errs := g.reported(); errs != nil {
				t.Errorf("reported %v, want nothing", errs)
			}
		})
	}
}

func TestWhatCannotBeSettledIsReported(t *testing.T) {
	g := newGate(t, byTokens, grpclimit.Config{})
	g.service.unary = func(ctx context.Context) error {
		g.store.Unreachable.Store(true)
		return grpc.SetHeader(ctx, metadata.Pairs("x-tokens-used", "1"))
	}
	g.call(t)
	if errs := g.reported(); len(errs) != 1 || !errors.Is(errs[0], enginetest.ErrUnreachable) || !strings.HasPrefix(errs[0].Error(), "settle "+method+": ") {
		t.Errorf("reported %v, want that it could not be settled", errs)
	}
}

func TestPlaceIsReleasedWhenTheCallEnds(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "one", Limits: limits("1 concurrent")}, grpclimit.Config{})
	running, finish := make(chan struct{}), make(chan struct{})
	g.service.unary = func(context.Context) error {
		running <- struct{}{}
		<-finish
		return nil
	}
	done := make(chan error)
	go func() { done <- g.call(t).err }()
	<-running
	if got := status.Code(g.call(t).err); got != codes.ResourceExhausted {
		t.Errorf("a second at the same time: %v, want ResourceExhausted", got)
	}
	close(finish)
	if err := <-done; err != nil {
		t.Error(err)
	}
	g.service.unary = nil
	if a := g.call(t); a.err != nil {
		t.Errorf("after the first: %v", a.err)
	}
	if n := g.store.Gives.Load(); n != 2 {
		t.Errorf("places were given back %d times, want 2", n)
	}
}

func TestConfigThatIsWrongIsRefused(t *testing.T) {
	g := newGate(t, rules.Rule{}, grpclimit.Config{})
	for _, tt := range []struct {
		name   string
		config grpclimit.Config
		want   string
	}{
		{"no engine", grpclimit.Config{}, "grpclimit: Engine is nil: create one with engine.New"},
		{
			"jitter below zero",
			grpclimit.Config{Engine: g.engine, Fields: httplimit.Fields{Jitter: -1}},
			"httplimit: Jitter -1ns: want 0 to 1h0m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := grpclimit.New(tt.config); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
