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
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/service"
)

// A Server serves Redis clients. Create one with New. It is safe for concurrent use.
type Server struct {
	config           Config
	tokens           service.Tokens
	bounds           bounds
	storeBorrowsKeys bool // decisions are made in this process, and the store does not keep keys
	oneCPU           bool // yield so that connections take turns; with more CPUs, yielding costs more than it gains
	commandTable
	limits   limitCache
	inFlight chan struct{}
	pools
	encryption
	usage
	logLimits

	accepted *service.Conns
	lifecycle
}

// encryption is the TLS configuration of a server. Both fields are nil without TLS.
type encryption struct {
	certs *service.Certificates
	tls   *tls.Config
}

// usage is what a server measures about itself.
type usage struct {
	started time.Time
	tick    atomic.Int64 // coarse clock for timeouts, in units of tickTime, starting at 1
	held    atomic.Int64 // bytes of large incomplete commands and of transactions
	counts  counts
}

// A commandTable has the commands of a server.
type commandTable struct {
	commands map[string]*command // by name
	list     []*command
	throttle *command // the most frequent command
}

func newCommandTable() commandTable {
	t := commandTable{list: commands(), commands: map[string]*command{}}
	for _, cmd := range t.list {
		t.commands[cmd.name] = cmd
	}
	t.throttle = t.list[0]
	return t
}

// pools have the memory that connections share.
type pools struct{ workspaces, largeWorkspaces, executors sync.Pool }

// logLimits limit frequent log lines.
type logLimits struct {
	failureLog service.LogLimit // about store failures
	httpLog    service.LogLimit // about HTTP clients
}

// A lifecycle has the listeners, connections and goroutines of a server, and ends them.
type lifecycle struct {
	background context.Context //nolint:containedctx // context.Background(), as an interface value
	ctx        context.Context //nolint:containedctx // of decisions with a remote store; ends with that of Shutdown
	cancel     context.CancelFunc
	stopping   context.Context //nolint:containedctx // it ends when Shutdown is called
	stop       context.CancelFunc

	mu        sync.Mutex // guards the fields below
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	ending    bool
	watching  bool           // expireConns runs
	running   sync.WaitGroup // connections, expireConns and the certificate watcher
}

type counter = atomic.Int64

type counts struct {
	nextID, expired, broken                                         counter
	commands, allowed, denied, errors, refusedTokens, storeFailures counter
}

// Stats are the counters of a Server.
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

// New returns a server. The error says what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	tokens := service.Tokens{Listener: "resp", Token: c.Token, Admin: c.AdminToken, Logins: c.Logins}
	if err := tokens.Validate(); err != nil {
		return nil, err
	}
	set, err := c.TLS.Open(c.Logger)
	if err != nil {
		return nil, fmt.Errorf("resp: %w", err)
	}
	l := &c.Limits
	s := &Server{
		config:       c,
		tokens:       tokens,
		bounds:       bounds{inline: l.Inline, args: l.Args, bulk: l.Bulk, command: l.Command},
		commandTable: newCommandTable(),
		inFlight:     make(chan struct{}, l.InFlight),
	}
	s.certs, s.started = set, time.Now()
	s.listeners, s.conns = map[net.Listener]struct{}{}, map[*conn]struct{}{}
	refusal := "-ERR max number of clients reached\r\n"
	if set != nil {
		s.tls = set.Config()
		refusal = "" // a plain text could not be read over TLS
	}
	s.accepted = c.Conns.New("resp", l.Conns, refusal, c.Logger)
	_, s.storeBorrowsKeys = c.Store.(engine.Borrower)
	s.oneCPU = runtime.GOMAXPROCS(0) == 1
	s.limits.bind = c.Bind
	s.background = context.Background()
	s.ctx, s.cancel = context.WithCancel(s.background)
	s.stopping, s.stop = context.WithCancel(s.background)
	s.tick.Store(1)
	s.workspaces.New = func() any { return s.newWorkspace(smallWorkspace) }
	s.largeWorkspaces.New = func() any { return s.newWorkspace(l.Command + smallWorkspace) }
	s.executors.New = func() any { return &executor{server: s} }
	return s, nil
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	c, conns := &s.counts, s.accepted.Counts()
	return Stats{
		Open: int64(open), Accepted: conns.Accepted, Refused: conns.Refused, Reclaimed: conns.Reclaimed,
		Expired: c.expired.Load(), Broken: c.broken.Load(),
		Commands: c.commands.Load(), Allowed: c.allowed.Load(), Denied: c.denied.Load(), Errors: c.errors.Load(),
		RefusedTokens: c.refusedTokens.Load(), StoreFailures: c.storeFailures.Load(),
	}
}

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("resp: server is shut down")

// Serve serves connections until Shutdown, and then returns nil. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }()
	if !s.addListener(l) {
		return ErrClosed
	}
	defer s.removeListener(l)
	bounded := s.accepted.Listener(l)
	pause := time.Duration(0)
	for {
		nc, err := bounded.Accept()
		if err == nil {
			pause = 0
			s.startConn(nc)
			continue
		}
		if s.isEnding() {
			return nil
		}
		var fault net.Error
		if !errors.As(err, &fault) || errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("resp: accept: %w", err)
		}
		// Temporary: too many open files, or a connection that was aborted.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.config.Logger.Warn("resp: accept failed, retrying", "err", err, "in", pause)
		select {
		case <-time.After(pause):
		case <-s.stopping.Done():
			return nil
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.watching {
		s.watching = true
		s.running.Go(s.expireConns)
		if s.certs != nil {
			s.running.Go(func() { s.certs.Watch(s.stopping) })
		}
	}
	return true
}

// Reload reads the certificate files now instead of at the next check.
func (s *Server) Reload() error { return s.certs.Reload() }

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// startConn starts to serve a connection.
func (s *Server) startConn(nc net.Conn) {
	plain := nc
	if s.tls != nil {
		nc = tls.Server(plain, s.tls) // the first read does the handshake, within CommandTimeout
	}
	c := &conn{server: s, net: nc, id: s.counts.nextID.Add(1)}
	c.reset(s)
	now := s.tick.Load()
	c.lastActive.Store(now)
	c.commandStart.Store(now)
	if counted := conns.Of(plain); counted != nil {
		counted.SetHolder(c)
	}
	s.mu.Lock()
	if s.ending {
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

// Shutdown refuses new connections, executes the commands already sent, and closes all connections. If ctx ends
// earlier, Shutdown aborts them and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.ending = true
	s.stop()
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
		s.cancel()
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.net.Close() // waits for a read in progress; the conn's goroutine handles the error
	}
	<-done
	return ctx.Err()
}

// tickTime is the interval of expireConns: a fraction of the shortest timeout.
func (s *Server) tickTime() time.Duration {
	shortest := s.config.Limits.CommandTimeout
	if idle := s.config.Limits.IdleTimeout; idle > 0 {
		shortest = min(shortest, idle)
	}
	return min(max(shortest/8, time.Millisecond), time.Second)
}

// probeAfter is the number of silent ticks after which a connection checks whether its client has closed.
const probeAfter = 2

// expireConns ends connections after a timeout. Connections only record the tick of their last command: reading the
// clock and setting a deadline for every command would cost almost as much as a decision.
func (s *Server) expireConns() {
	interval := s.tickTime()
	commandLimit := max(int64(s.config.Limits.CommandTimeout/interval), 1)
	idleLimit := int64(s.config.Limits.IdleTimeout / interval)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-ticker.C:
		}
		now := s.tick.Add(1)
		s.mu.Lock()
		for c := range s.conns {
			start, idleFor := c.commandStart.Load(), now-c.lastActive.Load()
			switch {
			case start != 0 && now-start > commandLimit || start == 0 && idleLimit > 0 && idleFor > idleLimit:
				if !c.expired.Swap(true) {
					s.counts.expired.Add(1)
					c.wake()
				}
			case idleFor == probeAfter && c.probing.Load():
				c.probed.Store(true)
				c.wake()
			}
		}
		s.mu.Unlock()
	}
}

// storeFailed counts and logs a store failure.
func (s *Server) storeFailed(err error) {
	s.counts.storeFailures.Add(1)
	if s.failureLog.Allow(time.Second) {
		s.config.Logger.Warn("resp: store failed", "err", err, "failures", s.counts.storeFailures.Load())
	}
}

func (s *Server) newExecutor() *executor { return s.executors.Get().(*executor) }

func (s *Server) releaseExecutor(e *executor) {
	e.out = e.out[:0]
	e.commands, e.allowed, e.denied, e.errors = 0, 0, 0, 0
	s.executors.Put(e)
}
