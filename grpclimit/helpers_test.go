package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// A gate is a server behind interceptors, and a client of it. Its clock stands still until it is set.
type gate struct {
	engine  *engine.Engine
	store   *enginetest.Store
	clock   *limittest.Clock
	service *service
	client  grpc_testing.TestServiceClient

	mu     sync.Mutex
	errors []error // that were reported
}

// newGate returns a gate with one rule, or none for the zero Rule.
func newGate(t testing.TB, rule rules.Rule, c grpclimit.Config) *gate {
	t.Helper()
	clock := limittest.NewClock()
	g := &gate{clock: clock}
	g.init(t, rule, c, memstore.Options{Now: clock.Now})
	return g
}

// newTimedGate returns one that goes by the system's clock.
func newTimedGate(t testing.TB, rule rules.Rule, c grpclimit.Config) *gate {
	t.Helper()
	g := &gate{}
	g.init(t, rule, c, memstore.Options{})
	return g
}

func (g *gate) init(t testing.TB, rule rules.Rule, c grpclimit.Config, o memstore.Options) {
	t.Helper()
	var list []rules.Rule
	if rule.ID != "" {
		list = append(list, rule)
	}
	g.engine, g.store = enginetest.New(t, list, o)
	c.Engine, c.Now = g.engine, o.Now
	c.OnError = func(_ context.Context, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errors = append(g.errors, err)
	}
	limit, err := grpclimit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	g.service = &service{}
	g.client = connect(t, g.service, limit)
}

// connect serves over TCP and returns a client.
func connect(t testing.TB, s grpc_testing.TestServiceServer, limit *grpclimit.Limiter) grpc_testing.TestServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(recoverUnary, limit.Unary),
		grpc.ChainStreamInterceptor(recoverStream, limit.Stream),
	)
	grpc_testing.RegisterTestServiceServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("api.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shut(conn)
		server.Stop()
		serving.Wait()
	})
	return grpc_testing.NewTestServiceClient(conn)
}

func shut(c io.Closer) { c.Close() }

var errPanic = errors.New("it panicked")

func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return h(ctx, req)
}

func recoverStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return h(srv, s)
}

// reported returns the errors that were.
func (g *gate) reported() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.errors
}

// service does as its functions say.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
	calls  atomic.Int64
	unary  func(ctx context.Context) error
	duplex func(s grpc_testing.TestService_FullDuplexCallServer) error
}

func (s *service) EmptyCall(ctx context.Context, _ *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	s.calls.Add(1)
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &grpc_testing.Empty{}, nil
}

func (s *service) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	if s.duplex != nil {
		return s.duplex(stream)
	}
	return echo(stream)
}

// echo answers each message.
func echo(stream grpc_testing.TestService_FullDuplexCallServer) error {
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// An answer is what a client gets to see of a call.
type answer struct {
	err             error
	header, trailer metadata.MD
}

// call calls once, with metadata of names and values in turn.
func (g *gate) call(t testing.TB, md ...string) (a answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), md...), time.Minute)
	defer cancel()
	_, a.err = g.client.EmptyCall(ctx, &grpc_testing.Empty{}, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	return a
}

// open opens a stream.
func (g *gate) open(t testing.TB, md ...string) grpc_testing.TestService_FullDuplexCallClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), md...), time.Minute)
	t.Cleanup(cancel)
	s, err := g.client.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// say sends a message and waits for the answer.
func say(s grpc_testing.TestService_FullDuplexCallClient) error {
	if err := s.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	_, err := s.Recv()
	return err
}

func limits(texts ...string) []rules.Limit {
	list := make([]rules.Limit, len(texts))
	for i, text := range texts {
		list[i].Limit = headgate.MustParseLimit(text)
	}
	return list
}

// key returns a rule's key of one attribute.
func key(name string) []headgate.Attribute { return []headgate.Attribute{attribute(name)} }

func attribute(name string) headgate.Attribute {
	a, err := headgate.ParseAttribute(name)
	if err != nil {
		panic(err)
	}
	return a
}

// blockWhen returns a rule that blocks calls whose attribute has a value.
func blockWhen(name, value string) rules.Rule {
	test := rules.Test{Attribute: attribute(name), Values: []string{value}}
	return rules.Rule{ID: "a", When: rules.Condition{Tests: []rules.Test{test}}, Block: true}
}

// delayed returns a rule that delays calls over a limit.
func delayed(limit string, longest time.Duration) rules.Rule {
	return rules.Rule{ID: "a", Limits: limits(limit), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: longest}}
}
