package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/service"
)

// ServiceName is what the service is called in gRPC, and HealthName in its health service.
const (
	ServiceName = "envoy.service.ratelimit.v3.RateLimitService"
	HealthName  = "ratelimit"
)

// Limits are what one request may have. More is refused.
type Limits struct {
	// Descriptors is how many. Default 128.
	Descriptors int
	// Entries is how many one of them may have. Default 64.
	Entries int
	// Body is how many bytes of JSON there may be. Default 1 MiB. What gRPC may bring is up to its server.
	Body int64
}

// Config is what a Server is made of. Store must be given, and Path or Engine.
type Config struct {
	// Path is where the configuration is, a directory or a file: see Load. Default none; then the rules of Engine decide.
	Path string
	// Engine decides if there is no Path.
	Engine *engine.Engine
	// Store counts what the configuration limits, and the limits that requests bring along.
	Store headgate.Limiter
	// CountDenied counts requests that are denied, as other services of this protocol do. Otherwise what the descriptors of one
	// have taken is given back. Without a Path it has no effect: rules have count_rejected for that.
	CountDenied bool
	// MergeDomains lets several files have the same domain: their descriptors apply together. A key and value may still stand
	// only once at the top level. Default is to refuse a second file of a domain.
	MergeDomains bool
	// DynamicMetadata sends dynamic_metadata with every response. Default is to send it only if a limit that applies and is not
	// exceeded has metadata.
	DynamicMetadata bool
	// OnFailure says who decides when the store cannot be asked. Default Open.
	OnFailure headgate.Policy
	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses.
	ResponseHeaders bool
	// Token is what callers of /json must show. Default none. That of gRPC is asked for by its server.
	Token *service.Token
	// Logins counts wrong tokens. It must be given with a Token.
	Logins *service.Logins
	// Limits bound requests.
	Limits Limits
	// OnError is told of a store that fails. It must be fast and safe for concurrent use. Default is to do nothing.
	OnError func(error)
	// OnHealth is told when Healthy changes, one call after the other. Default is to do nothing.
	OnHealth func(healthy bool)
	// Logger hears of configurations. Default slog's.
	Logger *slog.Logger
	// Now tells the time for windows in which nothing was counted yet. Default time.Now.
	Now func() time.Time
}

var (
	errNoStore  = errors.New("envoyrls: no Store: want a Limiter, such as a memstore.Store")
	errNoEngine = errors.New("envoyrls: neither Path nor Engine: want one of them to decide")
)

func (c *Config) fill() error {
	if c.Store == nil {
		return errNoStore
	}
	if c.Path == "" && c.Engine == nil {
		return errNoEngine
	}
	for _, n := range []struct {
		name  string
		value *int
		or    int
	}{{"Descriptors", &c.Limits.Descriptors, 128}, {"Entries", &c.Limits.Entries, 64}} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < 0 {
			return fmt.Errorf("envoyrls: Limits.%s %d: want more than 0, or 0 for the default", n.name, *n.value)
		}
	}
	if c.Limits.Body == 0 {
		c.Limits.Body = 1 << 20
	}
	if c.Limits.Body < 0 {
		return fmt.Errorf("envoyrls: Limits.Body %d: want more than 0, or 0 for the default", c.Limits.Body)
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	if c.OnHealth == nil {
		c.OnHealth = func(bool) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// A Server answers Envoys. Make one with New. It is safe for concurrent use.
type Server struct {
	config    Config
	tokens    service.Tokens
	borrows   bool // the store reads keys only until it returns
	table     atomic.Pointer[table]
	detailed  detailed
	overrides counter
	buffered  atomic.Int64 // bytes of bodies in JSON

	counts struct {
		requests, over, refused, degraded, unknownDomain, loads, loadsRefused atomic.Int64
	}

	loading sync.Mutex // held by who reads the configuration, or changes health
	last    string     // what was wrong with the configuration when it was read last
	inForce []text     // what the table was made of
	drained bool
	healthy atomic.Bool
}

// New returns a server. If there is a Config.Path it reads what is there; an error says everything that is wrong with it.
// That there is nothing yet is no error: requests are refused until there is.
func New(c Config) (*Server, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	c.CountDenied = c.CountDenied && c.Path != ""
	s := &Server{
		config: c, overrides: counter{descriptor: overrideName}, tokens: service.Tokens{Listener: "api", Token: c.Token, Logins: c.Logins},
	}
	if err := s.tokens.Validate(); err != nil {
		return nil, err
	}
	_, s.borrows = c.Store.(engine.Borrower)
	if c.Path != "" {
		if err := s.load(); err != nil && !errors.Is(err, errNoFiles) {
			return nil, err
		} else if err != nil {
			s.refuse(err)
		}
	}
	s.health()
	return s, nil
}

// Register has a gRPC server answer for this one. The server's codec has to be grpcwire.Codec.
func (s *Server) Register(r grpc.ServiceRegistrar) { r.RegisterService(&serviceDesc, s) }

// rateLimitService is what RegisterService checks a server against.
type rateLimitService interface {
	shouldRateLimit(ctx context.Context, c *call) (*reply, error)
}

var _ rateLimitService = (*Server)(nil)

var serviceDesc = grpc.ServiceDesc{
	ServiceName: ServiceName,
	HandlerType: (*rateLimitService)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    "envoy/service/ratelimit/v3/rls.proto",
}

const fullMethod = "/" + ServiceName + "/ShouldRateLimit"

//nolint:revive // the order of arguments is that of grpc.MethodDesc
func handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Server)
	c := newCall(s.config.Limits)
	if err := decode(&c.request); err != nil {
		c.free()
		return nil, err
	}
	if interceptor == nil {
		return s.answer(ctx, c)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
	return interceptor(ctx, &c.request, info, func(ctx context.Context, _ any) (any, error) { return s.answer(ctx, c) })
}

// answer is shouldRateLimit for gRPC, which takes an interface.
func (s *Server) answer(ctx context.Context, c *call) (any, error) {
	r, err := s.shouldRateLimit(ctx, c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// shouldRateLimit answers a request and owns its call, which the reply hands back when it is written.
func (s *Server) shouldRateLimit(ctx context.Context, c *call) (*reply, error) {
	if err := s.decide(ctx, c); err != nil {
		c.free()
		s.counts.refused.Add(1)
		return nil, err
	}
	s.counts.requests.Add(1)
	if c.reply.overall == overLimit {
		s.counts.over.Add(1)
	}
	return &c.reply, nil
}
