package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; MaxMessage bounds the decompressed message
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/server/service"
)

// A Server serves decisions over gRPC. Create one with New. It is safe for concurrent use.
type Server struct {
	config           Config
	tokens           service.Tokens
	grpc             *grpc.Server
	health           *health.Server
	conns            *service.Conns
	certs            *service.Certificates // nil without TLS
	storeBorrowsKeys bool                  // Config.Store does not keep keys after it returns
	pools
	helpers chan struct{}                   // one element per running helper goroutine
	streams atomic.Pointer[map[string]bool] // the full names of streaming methods
	faults  service.LogLimit                // limits the log lines about faults

	stop     context.CancelFunc
	stopping context.Context // done when Shutdown is called, to end streams
	running  sync.WaitGroup  // streams and the certificate watcher
}

// pools have the memory that calls share.
type pools struct {
	calls          sync.Pool // of *rateLimitCall
	batches        sync.Pool // of *batchCall
	decisions      sync.Pool // of *decision
	groups         sync.Pool // of *batchGroup
	streamMessages sync.Pool // of *streamMessage
	storeCalls     sync.Pool // of *storeCall
}

// maxHelpers is the maximum number of goroutines that help to decide batches and streams concurrently. If no helper is
// available, requests are decided one after the other.
const maxHelpers = 4096

// New returns a Server. The error says what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	tokens := service.Tokens{Listener: "grpc", Token: c.Token, Admin: c.AdminToken, Logins: c.Logins}
	if err := tokens.Validate(); err != nil {
		return nil, err
	}
	set, err := c.TLS.Open(c.Logger)
	if err != nil {
		return nil, fmt.Errorf("grpcapi: %w", err)
	}
	s := &Server{
		config: c, tokens: tokens, certs: set, health: health.NewServer(),
		conns: c.Conns.New("grpc", c.MaxConns, "", c.Logger), helpers: make(chan struct{}, maxHelpers),
	}
	_, s.storeBorrowsKeys = c.Store.(engine.Borrower)
	s.makePools()
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(s.options()...)
	s.grpc.RegisterService(&rateLimiterDesc, s)
	s.SetServing(rateLimiterDesc.ServiceName, true)
	if c.Store != nil {
		s.grpc.RegisterService(&storeDesc, s)
		s.SetServing(storeDesc.ServiceName, true)
	}
	grpc_health_v1.RegisterHealthServer(s.grpc, newHealthServer(s.health, s.stopping))
	reflection.Register(s.grpc)
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	c := &s.config
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(grpcwire.Codec),
		grpc.MaxRecvMsgSize(c.MaxMessage),
		grpc.MaxConcurrentStreams(uint32(c.MaxStreams)),
		grpc.MaxHeaderListSize(uint32(c.MaxHeader)),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: c.MinPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: c.IdleTimeout, Time: time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.InTapHandle(s.tapCall),
		grpc.WaitForHandlers(true),
		// Workers reuse their stacks. Growing a stack for each call would take a fifth of the time of the call. If streams
		// keep all workers busy, calls get new goroutines, which was 2 % slower with 300 streams. With 512 or 4096 workers,
		// calls took 15 % longer, because the memory of each worker had left the processor's caches.
		grpc.NumStreamWorkers(uint32(max(64, 16*runtime.GOMAXPROCS(0)))),
		grpc.ReadBufferSize(8 << 10), // idle connections keep this buffer
	}
	if c.Tracer != nil {
		options = append(options, grpc.StatsHandler(c.Tracer.CallHandler(s.isUntraced)))
	}
	if s.certs != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.certs.Config())))
	}
	return options
}

var errToken = status.Error(codes.Unauthenticated,
	"missing or wrong token of the decision service: want metadata authorization: Bearer TOKEN")

// tapCall checks the token before a call is read, and sets a timeout. Health.Check needs no token, because load
// balancers call it. Health.Watch needs one.
func (s *Server) tapCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.config.Token != nil && info.FullMethodName != grpc_health_v1.Health_Check_FullMethodName {
		if err := s.checkToken(ctx, info.Header); err != nil {
			return nil, err
		}
	}
	if _, has := ctx.Deadline(); has || (*s.streams.Load())[info.FullMethodName] {
		return ctx, nil
	}
	ctx, end := context.WithTimeout(ctx, s.config.CallTimeout)
	_ = end // gRPC cancels the parent context when the call ends
	return ctx, nil
}

// checkToken returns nil if md has a valid token, or the status that refuses the call.
func (s *Server) checkToken(ctx context.Context, md metadata.MD) error {
	values := md["authorization"]
	if len(values) != 1 {
		return errToken
	}
	var from netip.Addr
	var authenticated *atomic.Bool
	if p, ok := peer.FromContext(ctx); ok {
		if known, ok := p.Addr.(*connAddr); ok {
			authenticated = &known.authenticated
			from = service.AddrOf(known.Addr)
		}
	}
	err := s.tokens.CheckBearer(ctx, values[0], from, authenticated)
	var tooMany *service.TooManyLoginsError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooMany):
		return status.Error(codes.ResourceExhausted, tooMany.Error())
	default:
		return errToken
	}
}

// mayReset returns nil if a call may reset keys. This requires a token, even if other calls need none.
func (s *Server) mayReset(ctx context.Context) error {
	if !s.tokens.Any() {
		return errForbidden
	}
	md, _ := metadata.FromIncomingContext(ctx)
	err := s.checkToken(ctx, md)
	if errors.Is(err, errToken) {
		return errForbidden
	}
	return err
}

// listStreams stores which methods of all services are streams.
func (s *Server) listStreams() {
	streams := map[string]bool{}
	for name, service := range s.grpc.GetServiceInfo() {
		for _, m := range service.Methods {
			if m.IsClientStream || m.IsServerStream {
				streams["/"+name+"/"+m.Name] = true
			}
		}
	}
	s.streams.Store(&streams)
}

// Register adds other services. It must be called before Serve.
func (s *Server) Register(register func(grpc.ServiceRegistrar)) { register(s.grpc) }

// SetServing sets the health status of a service. The services of this package are SERVING until Shutdown.
func (s *Server) SetServing(name string, serving bool) {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(name, state)
}

// Conns returns the connections of the server.
func (s *Server) Conns() *service.Conns { return s.conns }

// Serve serves connections until Shutdown, and then returns nil. It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	s.listStreams()
	if s.certs != nil {
		s.running.Go(func() { s.certs.Watch(s.stopping) })
	}
	err := s.grpc.Serve(&listener{Listener: s.conns.Listener(l)})
	if s.stopping.Err() != nil && errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return err
}

// Reload reads the certificate files now instead of at the next check.
func (s *Server) Reload() error { return s.certs.Reload() }

// Shutdown refuses new calls and lets open ones finish. If ctx ends earlier, Shutdown aborts them and returns the
// error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
		s.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.grpc.Stop()
	<-done
	return ctx.Err()
}
