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
	_ "google.golang.org/grpc/encoding/gzip" // callers may compress; MaxMessage bounds what comes out
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/grpcwire"
	"github.com/headgate/headgate/service"
)

// A Server answers calls. Make one with New. It is safe for concurrent use.
type Server struct {
	config   Config
	tokens   service.Tokens
	grpc     *grpc.Server
	health   *health.Server
	conns    *service.Conns
	certs    *service.Certificates // nil without TLS
	borrows  bool                  // Config.Store keeps no keys
	calls    sync.Pool             // of *call
	batches  sync.Pool             // of *batch
	askers   sync.Pool             // of *asker
	groups   sync.Pool             // of *group
	streamed sync.Pool             // of *streamed
	doings   sync.Pool             // of *doing
	helpers  chan struct{}
	streams  atomic.Pointer[map[string]bool] // the methods that are streams
	logged   atomic.Int64                    // when a fault was logged last, in nanoseconds

	stop     context.CancelFunc
	stopping context.Context //nolint:containedctx // it ends when Shutdown is called, for streams to end
	running  sync.WaitGroup  // streams, and who watches certificates
}

// maxHelpers is how many goroutines there may be that help with batches and streams. Calls that get none are decided one
// after the other.
const maxHelpers = 4096

// New returns a Server. The error says what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.fill(); err != nil {
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
	_, s.borrows = c.Store.(engine.Borrower)
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
		grpc.InTapHandle(s.admit),
		grpc.WaitForHandlers(true),
		// Goroutines that have grown their stack are used again; to grow one in every call is a fifth of what it costs. Calls
		// that find all of them busy, as streams keep them, get one of their own: beside 300 streams calls took 2 % more time. With
		// 512 or 4096 of these they took 15 % more, streams or none: each is cold by the time its turn comes.
		grpc.NumStreamWorkers(uint32(max(64, 16*runtime.GOMAXPROCS(0)))),
		grpc.ReadBufferSize(8 << 10), // connections that are idle keep it
	}
	if s.certs != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.certs.Config())))
	}
	return options
}

var errToken = status.Error(codes.Unauthenticated, "show the token of the decision service: metadata authorization: Bearer TOKEN")

// admit asks a call for the token before anything else of it is read, and sees to it that it ends. How the server is everybody
// may ask, as load balancers do; to be told for as long as it runs is for those who have the token.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.config.Token != nil && info.FullMethodName != grpc_health_v1.Health_Check_FullMethodName {
		if err := s.login(ctx, info.Header); err != nil {
			return nil, err
		}
	}
	if _, has := ctx.Deadline(); has || (*s.streams.Load())[info.FullMethodName] {
		return ctx, nil
	}
	ctx, end := context.WithTimeout(ctx, s.config.CallTimeout)
	_ = end // gRPC ends the context that this is one of when the call does
	return ctx, nil
}

// login returns nil if a call has shown a valid token, or the status to refuse it with.
func (s *Server) login(ctx context.Context, md metadata.MD) error {
	shown := md["authorization"]
	if len(shown) != 1 {
		return errToken
	}
	var from netip.Addr
	var proven *atomic.Bool
	if p, ok := peer.FromContext(ctx); ok {
		if known, ok := p.Addr.(*connAddr); ok {
			proven = &known.proven
			from = service.AddrOf(known.Addr)
		}
	}
	err := s.tokens.CheckBearer(ctx, shown[0], from, proven)
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

// mayReset returns nil if a call may reset keys: only one that has shown a token.
func (s *Server) mayReset(ctx context.Context) error {
	if !s.tokens.Any() {
		return errForbidden
	}
	md, _ := metadata.FromIncomingContext(ctx)
	err := s.login(ctx, md)
	if errors.Is(err, errToken) {
		return errForbidden
	}
	return err
}

// listStreams notes which methods are streams, of all services.
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

// Register lets other services be served beside these. It is called before Serve.
func (s *Server) Register(register func(grpc.ServiceRegistrar)) { register(s.grpc) }

// SetServing says what Health answers of a service. Of those of this package it says that they are served until Shutdown.
func (s *Server) SetServing(name string, serving bool) {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(name, state)
}

// Conns returns the connections of the server.
func (s *Server) Conns() *service.Conns { return s.conns }

// Serve serves those who connect until Shutdown, and returns nil after that. It may be called for several listeners.
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

// Reload looks at the files of certificates now, rather than when it is time to.
func (s *Server) Reload() error { return s.certs.Reload() }

// Shutdown takes no new calls and lets those under way finish. When ctx ends before, it cuts them off and returns its error.
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
