package envoyrls

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/service"
)

// ServiceName is the name of the gRPC service, and HealthName its name in the gRPC health service.
const (
	ServiceName = "envoy.service.ratelimit.v3.RateLimitService"
	HealthName  = "ratelimit"
)

// Limits limit the size of a request. Larger requests are refused.
type Limits struct {
	// Descriptors is the maximum number of descriptors of a request. Default 128.
	Descriptors int
	// Entries is the maximum number of entries of a descriptor. Default 64.
	Entries int
	// Body is the maximum size of a JSON body in bytes. Default 1 MiB. The gRPC server has its own limit on messages.
	Body int
}

// Config configures a Server. Store is required, and Path or Engine.
type Config struct {
	// Path is the file or directory of the configuration. In a directory, files are read if their name ends in .yaml,
	// .yml or .json and does not begin with a dot. Subdirectories are not read. Default none: the rules of Engine decide.
	Path string
	// Engine decides if there is no Path.
	Engine *engine.Engine
	// Store counts the hits of the configuration's limits, and of limits that are stated in requests.
	Store headgate.Limiter
	// CountDenied makes denied requests consume units, as in other services with this protocol. Otherwise the units taken
	// for a denied request are returned. It has no effect without a Path; rules have the setting count_rejected.
	CountDenied bool
	// MergeDomains allows several files with the same domain, and merges their descriptors. A key and value must still
	// occur only once at the top level. Default false: a second file of a domain is refused.
	MergeDomains bool
	// DynamicMetadata sends dynamic_metadata with every response. Default false: it is sent only if a limit with metadata
	// applies and is not exceeded.
	DynamicMetadata bool
	// OnFailure decides when the store fails. Default Open.
	OnFailure headgate.Policy
	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to responses.
	ResponseHeaders bool
	// Token is required from callers of /json. Default none. The gRPC server checks its own token.
	Token *service.Token
	// Logins counts wrong tokens. Required with a Token.
	Logins *service.Logins
	// Limits bound requests.
	Limits Limits
	// OnError is called when the store fails. It must be fast and safe for concurrent use. Default nil.
	OnError func(error)
	// OnHealth is called when Healthy changes. There is only one call at a time. Default nil.
	OnHealth func(healthy bool)
	// Logger logs configuration loads. Default slog.Default().
	Logger *slog.Logger
	// Now returns the time. It is used for the reset time of windows without hits. Default time.Now.
	Now func() time.Time
}

var (
	errNoStore  = errors.New("envoyrls: no Store: want a Limiter, such as a memstore.Store")
	errNoEngine = errors.New("envoyrls: neither Path nor Engine: want one of them to decide")
)

func (c *Config) validate() error {
	if c.Store == nil {
		return errNoStore
	}
	if c.Path == "" && c.Engine == nil {
		return errNoEngine
	}
	options := service.CheckOptions("envoyrls: ")
	options.Int("Limits.Descriptors", &c.Limits.Descriptors, 128, 1, service.MaxInt)
	options.Int("Limits.Entries", &c.Limits.Entries, 64, 1, service.MaxInt)
	options.Int("Limits.Body", &c.Limits.Body, 1<<20, 1, service.MaxInt)
	if err := options.Err(); err != nil {
		return err
	}
	if c.OnError == nil {
		c.OnError = func(error) {}
	}
	if c.OnHealth == nil {
		c.OnHealth = func(bool) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// A Server is an Envoy rate limit service. Create one with New. It is safe for concurrent use.
type Server struct {
	config           Config
	tokens           service.Tokens
	storeBorrowsKeys bool // the store does not keep keys after it returns
	table            atomic.Pointer[table]
	detailed         detailedCounters
	overrides        counter
	buffered         atomic.Int64 // bytes of JSON bodies in memory

	counts struct {
		requests, over, refused, degraded, unknownDomain, loads, loadsRefused atomic.Int64
	}

	loadMu       sync.Mutex   // held while reading the configuration or changing health
	lastError    string       // error of the last failed load
	loadedFiles  []sourceFile // the files that the table was compiled from
	ignoredFiles []string     // other files in the directory, as of the latest load
	drained      bool
	healthy      atomic.Bool
}

// New returns a server. If Config.Path is set, New reads the configuration. The error lists all problems of the
// configuration. A missing configuration is not an error; requests are refused until there is one.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.CountDenied = c.CountDenied && c.Path != ""
	s := &Server{
		config: c, overrides: counter{descriptor: overrideName},
		tokens: service.Tokens{Listener: "api", Token: c.Token, Logins: c.Logins},
	}
	if err := s.tokens.Validate(); err != nil {
		return nil, err
	}
	_, s.storeBorrowsKeys = c.Store.(engine.Borrower)
	if c.Path != "" {
		if err := s.load(); err != nil && !errors.Is(err, errNoFiles) {
			return nil, err
		} else if err != nil {
			s.refuse(err)
		}
	}
	s.updateHealth()
	return s, nil
}

// Register adds the service to a gRPC server. The server's codec must be grpcwire.Codec.
func (s *Server) Register(r grpc.ServiceRegistrar) { r.RegisterService(&serviceDesc, s) }

// rateLimitService is the interface that RegisterService checks a server against.
type rateLimitService interface {
	shouldRateLimit(ctx context.Context, c *rateLimitCall) (*reply, error)
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
func handle(
	srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	s := srv.(*Server)
	c := newCall(s.config.Limits)
	if err := decode(&c.request); err != nil {
		c.free()
		return nil, err
	}
	if interceptor == nil {
		return s.respond(ctx, c)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}
	return interceptor(ctx, &c.request, info, func(ctx context.Context, _ any) (any, error) { return s.respond(ctx, c) })
}

// respond calls shouldRateLimit, and returns the result with the type that gRPC needs.
func (s *Server) respond(ctx context.Context, c *rateLimitCall) (any, error) {
	r, err := s.shouldRateLimit(ctx, c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// shouldRateLimit decides a request. The call is freed by MarshalWire of the reply, or after an error.
func (s *Server) shouldRateLimit(ctx context.Context, c *rateLimitCall) (*reply, error) {
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
