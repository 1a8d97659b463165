package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/service"
)

// A Server serves Redis clients. Create one with New. It is safe for concurrent use.
type Server struct {
	config     Config
	tokens     service.Tokens
	sizeLimits sizeLimits
	// storeInProcess is true if Config.Store is an engine.Borrower. Then decisions are made in this process. The store
	// keeps no key after a call, so keys may point into the read buffer.
	storeInProcess bool
	// yields makes connections let each other run before they send replies. It is true if there is only one CPU. With
	// more CPUs, it would make the server slower.
	yields     bool
	limitCache limitCache
	inFlight   chan struct{} // an element for each concurrent decision by a remote store
	connLimit  *service.Conns

	// The embedded structs group the other fields.
	commandTable
	pools
	encryption
	usage
	logLimits
	lifecycle
}

// encryption is the TLS configuration of a server. Both fields are nil without TLS.
type encryption struct {
	certs *service.Certificates
	tls   *tls.Config
}

// usage contains what a server measures about itself.
type usage struct {
	started   time.Time
	tick      atomic.Int64 // the clock of the timeouts: it grows by 1 every tickInterval, and starts at 1
	heldBytes atomic.Int64 // bytes of large incomplete commands and of transactions, for Limits.Held
	counts    counts
}

// A commandTable contains the commands that clients can send.
type commandTable struct {
	commands    map[string]*command // by name
	commandList []*command
	throttle    *command // CL.THROTTLE, for the fast path of lookup
}

func newCommandTable() commandTable {
	t := commandTable{commandList: commands(), commands: map[string]*command{}}
	for _, cmd := range t.commandList {
		t.commands[cmd.name] = cmd
	}
	t.throttle = t.commands[strings.ToLower(throttleName)]
	return t
}

// pools contains the reusable memory that connections share.
type pools struct{ workspaces, largeWorkspaces, executors sync.Pool }

// logLimits limits the log messages about frequent events.
type logLimits struct {
	failureLog service.LogLimit // about store failures
	httpLog    service.LogLimit // about HTTP clients
}

// A lifecycle contains the listeners, connections and goroutines that Shutdown ends.
type lifecycle struct {
	shutdownCtx   context.Context //nolint:containedctx // canceled when Shutdown is called
	beginShutdown context.CancelFunc
	// decideCtx is the parent of the contexts of decisions by a remote store. It is canceled when Shutdown completes or
	// its ctx ends.
	decideCtx       context.Context //nolint:containedctx // the server's own
	cancelDecisions context.CancelFunc

	mu           sync.Mutex // guards the fields below
	listeners    map[net.Listener]struct{}
	conns        map[*conn]struct{}
	shuttingDown bool           // Shutdown was called
	watching     bool           // the goroutines of expireConns and the certificate watcher were started
	running      sync.WaitGroup // all goroutines: connections, expireConns and the certificate watcher
}

// counts contains the counters that Stats returns, and the ID of the latest connection.
type counts struct {
	lastID, expired, broken                                         atomic.Int64
	commands, allowed, denied, errors, refusedTokens, storeFailures atomic.Int64
}

// Stats contains counters since the server was created, except Open, which is the number of open connections.
type Stats struct {
	Open, Accepted, Refused int64 // connections
	Reclaimed               int64 // idle connections closed to make room for others
	Expired                 int64 // connections closed by a timeout
	Broken                  int64 // connections closed by a protocol error
	Commands                int64 // commands executed
	Allowed, Denied         int64 // decisions
	Errors                  int64 // error replies
	RefusedTokens           int64 // wrong tokens
	StoreFailures           int64 // decisions that failed because of the store
}

// New returns a server. The error names what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	tokens := service.Tokens{Listener: "resp", Token: c.Token, Admin: c.AdminToken, Logins: c.Logins}
	if err := tokens.Validate(); err != nil {
		return nil, err
	}
	certs, err := c.TLS.Open(c.Logger)
	if err != nil {
		return nil, fmt.Errorf("resp: %w", err)
	}
	limits := &c.Limits
	s := &Server{
		config:       c,
		tokens:       tokens,
		sizeLimits:   sizeLimits{inline: limits.Inline, args: limits.Args, bulk: limits.Bulk, command: limits.Command},
		commandTable: newCommandTable(),
		inFlight:     make(chan struct{}, limits.InFlight),
	}
	s.certs = certs
	s.started = time.Now()
	s.listeners = map[net.Listener]struct{}{}
	s.conns = map[*conn]struct{}{}
	refusal := "-ERR max number of clients reached\r\n"
	if certs != nil {
		s.tls = certs.Config()
		refusal = "" // a plaintext reply is unreadable to a TLS client
	}
	s.connLimit = c.Conns.New("resp", limits.Conns, refusal, c.Logger)
	_, s.storeInProcess = c.Store.(engine.Borrower)
	s.yields = runtime.GOMAXPROCS(0) == 1
	s.limitCache.bind = c.Bind
	s.decideCtx, s.cancelDecisions = context.WithCancel(context.Background())
	s.shutdownCtx, s.beginShutdown = context.WithCancel(context.Background())
	s.tick.Store(1)
	s.workspaces.New = func() any { return s.newWorkspace(smallWorkspace) }
	s.largeWorkspaces.New = func() any { return s.newWorkspace(limits.Command + smallWorkspace) }
	s.executors.New = func() any { return &executor{server: s} }
	return s, nil
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	c, conns := &s.counts, s.connLimit.Counts()
	return Stats{
		Open: int64(open), Accepted: conns.Accepted, Refused: conns.Refused, Reclaimed: conns.Reclaimed,
		Expired: c.expired.Load(), Broken: c.broken.Load(),
		Commands: c.commands.Load(), Allowed: c.allowed.Load(), Denied: c.denied.Load(), Errors: c.errors.Load(),
		RefusedTokens: c.refusedTokens.Load(), StoreFailures: c.storeFailures.Load(),
	}
}

// ErrClosed is returned by Serve if Shutdown was called before Serve.
var ErrClosed = errors.New("resp: server is shut down")

// Serve serves connections until Shutdown is called, and then returns nil. If Shutdown was called before Serve, Serve
// returns ErrClosed. Serve always closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }()
	if !s.addListener(l) {
		return ErrClosed
	}
	defer s.removeListener(l)
	limited := s.connLimit.Listener(l)
	pause := time.Duration(0)
	for {
		nc, err := limited.Accept()
		if err == nil {
			pause = 0
			s.startConn(nc)
			continue
		}
		if s.isShuttingDown() {
			return nil
		}
		var netErr net.Error
		if !errors.As(err, &netErr) || errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("resp: accept: %w", err)
		}
		// The error is temporary: there are too many open files, or the client aborted the connection.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.config.Logger.Warn("resp: accept failed, retrying", "err", err, "in", pause)
		select {
		case <-time.After(pause):
		case <-s.shutdownCtx.Done():
			return nil
		}
	}
}

// addListener records a listener. With the first listener, it starts the server's own goroutines. It returns false
// after Shutdown.
func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shuttingDown {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.watching {
		s.watching = true
		s.running.Go(s.expireConns)
		if s.certs != nil {
			s.running.Go(func() { s.certs.Watch(s.shutdownCtx) })
		}
	}
	return true
}

// Reload reads the certificate files now instead of at the next regular check. Without TLS it does nothing.
func (s *Server) Reload() error { return s.certs.Reload() }

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isShuttingDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shuttingDown
}

// startConn starts the goroutine that serves a connection.
func (s *Server) startConn(nc net.Conn) {
	plain := nc
	if s.tls != nil {
		nc = tls.Server(plain, s.tls) // the first read does the handshake, within CommandTimeout
	}
	c := &conn{server: s, net: nc, id: s.counts.lastID.Add(1)}
	c.reset(s)
	now := s.tick.Load()
	c.lastActive.Store(now)
	c.commandStart.Store(now)
	if limited := conns.Of(plain); limited != nil {
		limited.SetHolder(c) // connLimit asks c whether the connection may be closed to make room for another
	}
	s.mu.Lock()
	if s.shuttingDown {
		s.mu.Unlock()
		_ = plain.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.running.Go(c.serve)
	s.mu.Unlock()
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown refuses new connections, executes the commands that clients have already sent, and closes all connections.
// If ctx ends first, Shutdown cancels the decisions in progress, closes the connections immediately, and returns the
// error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.shuttingDown = true
	s.beginShutdown()
	for l := range s.listeners {
		_ = l.Close() // makes Serve return
	}
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancelDecisions()
		return nil
	case <-ctx.Done():
	}
	s.cancelDecisions()
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.net.Close() // interrupts a read in progress and waits until the read has returned
	}
	<-done
	return ctx.Err()
}

// tickInterval returns the time between two checks of expireConns. It is an eighth of the shortest timeout, but at
// least 1 ms and at most 1 s.
func (s *Server) tickInterval() time.Duration {
	shortest := s.config.Limits.CommandTimeout
	if idle := s.config.Limits.IdleTimeout; idle > 0 {
		shortest = min(shortest, idle)
	}
	return min(max(shortest/8, time.Millisecond), time.Second)
}

// probeAfter is the number of ticks without a command after which the server checks whether the client has closed the
// connection.
const probeAfter = 2

// expireConns ends connections whose timeouts have expired. A connection only records the tick of its last command. If
// it read the clock and set a deadline for every command, this would cost almost as much as a decision.
func (s *Server) expireConns() {
	interval := s.tickInterval()
	commandTicks := max(int64(s.config.Limits.CommandTimeout/interval), 1)
	idleTicks := int64(s.config.Limits.IdleTimeout / interval) // 0 or less for no timeout
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.shutdownCtx.Done():
			return
		case <-ticker.C:
		}
		now := s.tick.Add(1)
		s.mu.Lock()
		for c := range s.conns {
			start, silence := c.commandStart.Load(), now-c.lastActive.Load()
			commandExpired := start != 0 && now-start > commandTicks
			idleExpired := start == 0 && idleTicks > 0 && silence > idleTicks
			switch {
			case commandExpired || idleExpired:
				if !c.expired.Swap(true) {
					s.counts.expired.Add(1)
					c.wake()
				}
			case silence == probeAfter && c.canProbe.Load():
				c.probe.Store(true)
				c.wake()
			}
		}
		s.mu.Unlock()
	}
}

// reportStoreFailure counts and logs a store failure.
func (s *Server) reportStoreFailure(err error) {
	s.counts.storeFailures.Add(1)
	if s.failureLog.Allow(time.Second) {
		s.config.Logger.Warn("resp: store failed", "err", err, "failures", s.counts.storeFailures.Load())
	}
}

func (s *Server) getExecutor() *executor { return s.executors.Get().(*executor) }

func (s *Server) putExecutor(e *executor) {
	e.out = e.out[:0]
	e.commandCount, e.allowed, e.denied, e.errors = 0, 0, 0, 0
	s.executors.Put(e)
}
