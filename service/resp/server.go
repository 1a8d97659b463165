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
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/service"
)

// A Server answers clients of Redis. Make one with New; it is safe for concurrent use.
type Server struct {
	config     Config
	tokens     service.Tokens
	bounds     bounds
	borrows    bool // decisions are made in this process, and keys are only borrowed
	oneCPU     bool // connections take turns; with more CPUs, giving way wakes another of them, which costs more than it gains
	commands   map[string]*command
	list       []*command
	throttle   *command // of them, the one that is asked for most
	ready      readyLimits
	inFlight   chan struct{}
	background context.Context
	ctx        context.Context // of decisions behind a network; ends when Shutdown has no more patience
	cancel     context.CancelFunc
	started    time.Time
	desks      sync.Pool
	largeDesks sync.Pool
	clerks     sync.Pool
	certs      *service.Certificates // nil without TLS
	tls        *tls.Config           // nil without TLS

	counts counts
	held   atomic.Int64 // bytes of commands that are not whole, of large ones
	tick   atomic.Int64 // the time by which connections are too old, in tickTimes from 1 on
	failed seldom       // logs failing stores
	strays seldom       // logs those who speak HTTP

	places *service.Conns // where connections have one

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	ending    bool
	stop      chan struct{} // ends the caretaker
	caring    bool
	running   sync.WaitGroup // connections and the caretaker
}

type counter = atomic.Int64

type counts struct {
	nextID, expired, broken                                counter
	commands, allowed, denied, errors, refusedTokens, oops counter
}

// Stats is what a Server has done since it was made.
type Stats struct {
	Open, Accepted, Refused int64 // connections
	Reclaimed               int64 // connections that were closed, while they were silent, to make room for others
	Expired                 int64 // connections that were silent for too long
	Broken                  int64 // connections that ended with a protocol error
	Commands                int64 // that were answered
	Allowed, Denied         int64 // decisions
	Errors                  int64 // answers that are errors
	RefusedTokens           int64 // that were shown and wrong
	StoreFailures           int64 // decisions that a store could not make
}

// New returns a server. The error says what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.fill(); err != nil {
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
		config:     c,
		tokens:     tokens,
		certs:      set,
		bounds:     bounds{inline: l.Inline, args: l.Args, bulk: l.Bulk, command: l.Command},
		list:       commands(),
		commands:   map[string]*command{},
		inFlight:   make(chan struct{}, l.InFlight),
		background: context.Background(),
		started:    time.Now(),
		listeners:  map[net.Listener]struct{}{},
		conns:      map[*conn]struct{}{},
		stop:       make(chan struct{}),
	}
	farewell := "-ERR max number of clients reached\r\n"
	if set != nil {
		s.tls = set.Config()
		farewell = "" // it could not be read
	}
	s.places = c.Conns.New("resp", l.Conns, farewell, c.Logger)
	_, s.borrows = c.Store.(engine.Borrower)
	s.oneCPU = runtime.GOMAXPROCS(0) == 1
	s.ready.bind = c.Bind
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, cmd := range s.list {
		s.commands[cmd.name] = cmd
	}
	s.throttle = s.list[0]
	s.tick.Store(1)
	s.desks.New = func() any { return s.newDesk(smallDesk) }
	s.largeDesks.New = func() any { return s.newDesk(l.Command + smallDesk) }
	s.clerks.New = func() any { return &clerk{server: s} }
	return s, nil
}

// Stats returns what the server has done.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	c, conns := &s.counts, s.places.Counts()
	return Stats{
		Open: int64(open), Accepted: conns.Accepted, Refused: conns.Refused, Reclaimed: conns.Reclaimed,
		Expired: c.expired.Load(), Broken: c.broken.Load(),
		Commands: c.commands.Load(), Allowed: c.allowed.Load(), Denied: c.denied.Load(), Errors: c.errors.Load(),
		RefusedTokens: c.refusedTokens.Load(), StoreFailures: c.oops.Load(),
	}
}

// ErrClosed is returned by Serve for a server that was shut down before.
var ErrClosed = errors.New("resp: the server was shut down")

// Serve serves those who connect until Shutdown, and returns nil after that. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }()
	if !s.open(l) {
		return ErrClosed
	}
	defer s.forget(l)
	bounded := s.places.Listener(l)
	pause := time.Duration(0)
	for {
		nc, err := bounded.Accept()
		if err == nil {
			pause = 0
			s.welcome(nc)
			continue
		}
		if s.isEnding() {
			return nil
		}
		var fault net.Error
		if !errors.As(err, &fault) || errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("resp: accept: %w", err)
		}
		// Too many files are open, or a connection broke before it was one: more come.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.config.Logger.Warn("resp: cannot accept: try again soon", "err", err, "in", pause)
		select {
		case <-time.After(pause):
		case <-s.stop:
			return nil
		}
	}
}

func (s *Server) open(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.caring {
		s.caring = true
		s.running.Go(s.care)
		if s.certs != nil {
			s.running.Go(s.watchCerts)
		}
	}
	return true
}

// watchCerts looks for new certificates until the server is to stop.
func (s *Server) watchCerts() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { s.certs.Watch(ctx) })
	<-s.stop
	cancel()
	watching.Wait()
}

// Reload looks at the files of certificates now, rather than when it is time to.
func (s *Server) Reload() error { return s.certs.Reload() }

func (s *Server) forget(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// welcome serves a connection.
func (s *Server) welcome(nc net.Conn) {
	plain := nc
	if s.tls != nil {
		nc = tls.Server(plain, s.tls) // whoever reads it first shakes hands, and has as long as for a command
	}
	c := &conn{server: s, net: nc, id: s.counts.nextID.Add(1)}
	c.begin(s)
	now := s.tick.Load()
	c.active.Store(now)
	c.begun.Store(now)
	if place := conns.Of(plain); place != nil {
		place.SetHolder(c)
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

func (s *Server) gone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown takes no new connections, lets those that there are have the answers of what they have sent, and closes them.
// When ctx ends before, it cuts them off and returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.ending {
		s.ending = true
		close(s.stop)
	}
	for l := range s.listeners {
		_ = l.Close() // Serve sees it
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
	left := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range left {
		_ = c.net.Close() // waits until it is read no more; its goroutine says what is to be said
	}
	<-done
	return ctx.Err()
}

// tickTime is how often the caretaker looks: several times in the shortest time that connections have.
func (s *Server) tickTime() time.Duration {
	shortest := s.config.Limits.CommandTimeout
	if idle := s.config.Limits.IdleTimeout; idle > 0 {
		shortest = min(shortest, idle)
	}
	return min(max(shortest/8, time.Millisecond), time.Second)
}

// probeAfter is after how many ticks of silence a connection looks whether its client has ended.
const probeAfter = 2

// care ends connections whose time is over. Connections only note in which tick something came: reading a clock and setting
// a deadline with every command would cost a good part of what deciding it does.
func (s *Server) care() {
	every := s.tickTime()
	command := max(int64(s.config.Limits.CommandTimeout/every), 1)
	idle := int64(s.config.Limits.IdleTimeout / every)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		now := s.tick.Add(1)
		s.mu.Lock()
		for c := range s.conns {
			begun, silent := c.begun.Load(), now-c.active.Load()
			switch {
			case begun != 0 && now-begun > command || begun == 0 && idle > 0 && silent > idle:
				if !c.expired.Swap(true) {
					s.counts.expired.Add(1)
					c.wake()
				}
			case silent == probeAfter && c.probing.Load():
				c.probed.Store(true)
				c.wake()
			}
		}
		s.mu.Unlock()
	}
}

// storeFailed notes that a store could not decide.
func (s *Server) storeFailed(err error) {
	s.counts.oops.Add(1)
	if s.failed.may(time.Since(s.started)) {
		s.config.Logger.Warn("resp: the store could not decide", "err", err, "failures", s.counts.oops.Load())
	}
}

// seldom keeps clients from filling the log: what it is asked for may be logged once a second.
type seldom struct{ last atomic.Int64 }

func (s *seldom) may(at time.Duration) bool {
	now, last := int64(at+time.Second), s.last.Load()
	return now-last >= int64(time.Second) && s.last.CompareAndSwap(last, now)
}

func (s *Server) clerk() *clerk { return s.clerks.Get().(*clerk) }

func (s *Server) putClerk(k *clerk) {
	k.out = k.out[:0]
	k.commands, k.allowed, k.denied, k.errors = 0, 0, 0, 0
	s.clerks.Put(k)
}
