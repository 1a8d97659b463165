package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/rules"
)

func TestStreamIsOneCall(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Limits: limits("2/m")}, grpclimit.Config{})
	for range 2 {
		s := g.open(t)
		for range 5 {
			if err := say(s); err != nil {
				t.Fatal(err)
			}
		}
		header, err := s.Header()
		if err != nil || only(header, "ratelimit-policy") != `"a";q=2;w=60` {
			t.Errorf("header %v, %v, want the policy", header, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	s := g.open(t)
	err := say(s)
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || details(st) != "retry in 30s, a: 2/m" {
		t.Errorf("a third stream: %v (%s), want ResourceExhausted", err, details(st))
	}
	if got := only(s.Trailer(), "retry-after"); got != "30" {
		t.Errorf("its trailer says Retry-After %q, want 30", got)
	}
	if n := g.service.calls.Load(); n != 2 {
		t.Errorf("the service was called %d times, want 2", n)
	}
}

func TestEachMessageCountsIfToldSo(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Limits: limits("3/m")}, grpclimit.Config{PerMessage: true})
	s := g.open(t)
	for i := range 3 {
		if err := say(s); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	err := say(s)
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || details(st) != "retry in 20s, a: 3/m" {
		t.Errorf("the fourth message: %v (%s), want ResourceExhausted", err, details(st))
	}
	if got := only(s.Trailer(), "ratelimit"); got != `"a";r=0;t=20` {
		t.Errorf("the trailer says RateLimit %q", got)
	}
}

func TestClientsGetTheStatusWhateverTheHandlerMakesOfIt(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Limits: limits("1/m")}, grpclimit.Config{PerMessage: true})
	var again error
	g.service.duplex = func(s grpc_testing.TestService_FullDuplexCallServer) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if _, err := s.Recv(); err == nil {
			t.Error("a second message was received, want it denied")
		}
		_, again = s.Recv()
		return errors.New("could not receive")
	}
	s := g.open(t)
	for range 3 {
		if err := s.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the client gets %v, want ResourceExhausted", err)
	}
	if status.Code(again) != codes.ResourceExhausted {
		t.Errorf("who receives on gets %v, want ResourceExhausted", again)
	}
}

func TestStreamHoldsItsPlaceUntilItEndsAndItsMessagesNeedNone(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "one", Limits: limits("100/s", "1 concurrent")}, grpclimit.Config{PerMessage: true})
	s := g.open(t)
	for range 5 {
		if err := say(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := say(g.open(t)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second stream: %v, want ResourceExhausted", err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("the end of the first: %v", err)
	}
	third := g.open(t)
	if err := say(third); err != nil {
		t.Errorf("after the first: %v", err)
	}
	if n := g.store.Gives.Load(); n != 1 {
		t.Errorf("places were given back %d times, want once", n)
	}
}

// A stream that takes longer than the TTL holds its slot until it ends. The store's clock is set by hand, and renewals
// come by the system's.
func TestSlotIsRenewedWhileTheStreamLasts(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "one", Limits: limits("1 concurrent ttl 30ms")}, grpclimit.Config{})
	s := g.open(t)
	if err := say(s); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		g.clock.Advance(20 * time.Millisecond)
		renewed := g.store.Renews.Load()
		await.True(t, "the slot renewed", func() bool { return g.store.Renews.Load() > renewed })
		if a := g.call(t); status.Code(a.err) != codes.ResourceExhausted {
			t.Errorf("a second: got %v, want it to be denied", a.err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the slot free", func() bool { return g.call(t).err == nil })
}

// A caller that leaves before the response says its cost pays the most that one can cost, by default the limit's
// capacity.
func TestCallerThatLeavesPaysTheMost(t *testing.T) {
	for name, tt := range map[string]struct {
		say  string
		left string
	}{
		"nothing is said":  {"", "0"},
		"the cost is said": {"250", "650"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, byTokens, grpclimit.Config{})
			ended := make(chan struct{})
			g.service.duplex = func(s grpc_testing.TestService_FullDuplexCallServer) error {
				defer close(ended)
				if err := s.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
					return err
				}
				<-s.Context().Done()
				if tt.say != "" {
					s.SetTrailer(metadata.Pairs("x-tokens-used", tt.say))
				}
				return nil
			}
			ctx, leave := context.WithCancel(t.Context())
			s, err := g.client.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
			leave()
			<-ended
			g.service.unary = func(ctx context.Context) error { return grpc.SetTrailer(ctx, metadata.Pairs("x-tokens-used", "0")) }
			await.Equal(t, "left of 1000", func() string {
				a := g.call(t)
				return only(a.header, "x-ratelimit-remaining") + only(a.trailer, "x-ratelimit-remaining")
			}, tt.left)
		})
	}
}

func TestCostOfAStreamIsSettledOnce(t *testing.T) {
	for _, perMessage := range []bool{false, true} {
		for name, tell := range map[string]func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error{
			"by the stream's trailer": func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error {
				s.SetTrailer(md)
				return nil
			},
			"by the stream's header": func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error {
				return s.SetHeader(md)
			},
			"by a header that is sent": func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error {
				return s.SendHeader(md)
			},
			"by the context": func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error {
				return grpc.SetTrailer(s.Context(), md)
			},
			"before a panic": func(s grpc_testing.TestService_FullDuplexCallServer, md metadata.MD) error {
				s.SetTrailer(md)
				panic("no")
			},
		} {
			t.Run(name, func(t *testing.T) {
				g := newGate(t, byTokens, grpclimit.Config{PerMessage: perMessage})
				g.service.duplex = func(s grpc_testing.TestService_FullDuplexCallServer) error {
					for range 3 {
						if _, err := s.Recv(); err != nil {
							return err
						}
					}
					return tell(s, metadata.Pairs("x-tokens-used", "250"))
				}
				s := g.open(t)
				for range 3 {
					if err := s.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := s.Recv(); err == nil {
					t.Fatal("the stream goes on, want its end")
				}
				if got := only(g.call(t).header, "x-ratelimit-remaining"); got != "650" {
					t.Errorf("left of 1000: %s, want 650", got)
				}
			})
		}
	}
}

// A handler may receive in a goroutine of its own, which is still at it when the handler returns.
func TestReceivingAfterTheHandlerHasReturnedIsNoHarm(t *testing.T) {
	g := newGate(t, rules.Rule{ID: "a", Limits: limits("1000000/s")}, grpclimit.Config{PerMessage: true})
	stopped := make(chan struct{}, 100)
	g.service.duplex = func(s grpc_testing.TestService_FullDuplexCallServer) error {
		began := make(chan struct{})
		go func() {
			close(began)
			for {
				if _, err := s.Recv(); err != nil {
					stopped <- struct{}{}
					return
				}
			}
		}()
		<-began
		return nil
	}
	for range 50 {
		s := g.open(t)
		for range 10 {
			if err := s.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
				break
			}
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %v, want the end", err)
		}
		g.call(t) // which uses what the stream may have given back
		<-stopped
	}
}
