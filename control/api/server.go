package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/rules"
)

// A Server answers calls, tells watchers and delivers webhooks. It is an http.Handler for /v1/ and /openapi.json, and safe
// for concurrent use.
type Server struct {
	config       Config
	spaces       spaces
	hub          *hub
	snapshots    snapshots
	beats        beats
	hooks        *courier
	asker        *asker
	large        largeBodies
	watchComment time.Duration
	// importChunk is how many clients are imported in one change.
	importChunk int
	// importPruned is how many clients an import may have that deletes all others.
	importPruned int

	stop  context.CancelFunc
	ended context.Context // when the server is closed

	mu      sync.Mutex // of closed, and of whoever begins to run
	closed  bool
	running sync.WaitGroup // what the server does by itself, and calls
}

var _ http.Handler = (*Server)(nil)

// startTime is how long the first look at the database may take.
const startTime = 30 * time.Second

// New returns a Server, which watches the database and delivers webhooks until Close. The error says what is wrong with the
// Config, or that the database could not be asked.
func New(c Config) (*Server, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Server{config: c, importChunk: defaultImportChunk, importPruned: maxImportPruned, watchComment: watchComment}
	s.ended, s.stop = context.WithCancel(context.Background())
	s.spaces.byName = make(map[string]*space)
	s.hub = newHub(s)
	s.hooks = newCourier(s)
	s.asker = newAsker(&s.config)
	first, cancel := context.WithTimeout(s.ended, startTime)
	defer cancel()
	if err := s.firstToken(first); err != nil {
		s.stop()
		return nil, fmt.Errorf("api: the first token: %w", err)
	}
	s.running.Go(s.hub.run)
	s.running.Go(s.hooks.run)
	s.running.Go(s.warm)
	s.running.Go(s.sweep)
	return s, nil
}

// Close ends what the server does by itself, watches and deliveries, and calls that are under way. It closes nothing that it
// was given.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	s.hooks.close()
	s.asker.close()
	return nil
}

// enter reports whether a call may be made, which is over with leave.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

func (s *Server) leave() { s.running.Done() }

// callTime is how long a call may take that is not streamed.
const callTime = time.Minute

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if err := s.serve(w, r); err != nil {
		p, fault := problemOf(err)
		if fault {
			s.config.Logger.Error("rules service: a call failed", "method", r.Method, "path", r.URL.Path, "err", err.Error())
		}
		if p.Status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", `Bearer realm="headgate"`)
		}
		p.answer(w)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if !s.enter() {
		return errClosed()
	}
	defer s.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	r = r.WithContext(ctx)
	to, args, methods := find(r.Method, r.URL.EscapedPath())
	switch {
	case to == nil && methods == nil:
		return fail(http.StatusNotFound, "There is nothing at %s; see /openapi.json.", rules.Quote(r.URL.Path))
	case to == nil:
		slices.Sort(methods)
		allow := strings.Join(slices.Compact(methods), ", ")
		w.Header().Set("Allow", allow)
		return fail(http.StatusMethodNotAllowed, "Use %s.", allow)
	}
	c := &call{w: w, r: r, route: to, args: args, namespace: defaultNamespace, maxBody: s.config.MaxBody, large: &s.large}
	defer c.end()
	if from := s.config.From(r); from.IsValid() {
		c.from = from.String()
	}
	if err := s.admit(c); err != nil {
		return err
	}
	err := to.serve(s, c)
	if err != nil && s.ended.Err() != nil && errors.Is(err, context.Canceled) {
		return errClosed()
	}
	return err
}

func errClosed() error {
	p := fail(http.StatusServiceUnavailable, "The rules service is being stopped.")
	p.retryAfter = time.Second
	return p
}

// admit lets a call pass if who makes it may do so, and reads what is common to all.
func (s *Server) admit(c *call) error {
	if c.route.roles != nil {
		who, err := s.authenticate(c)
		if err != nil {
			return err
		}
		c.who = who
		if !slices.Contains(c.route.roles, who.Role) {
			return fail(http.StatusForbidden, "The token %s has the role %s. This is for %s.", who.ID, who.Role, oneOf(c.route.roles))
		}
	}
	if err := c.readQuery(); err != nil {
		return err
	}
	switch {
	case c.route.scope == oneNamespace && !c.who.covers(c.namespace):
		return fail(http.StatusForbidden, "The token %s is not for the namespace %s.", c.who.ID, c.namespace)
	case c.route.scope == allNamespaces && !c.who.coversAll():
		return fail(http.StatusForbidden, "The token %s is not for all namespaces, and this is about all of them.", c.who.ID)
	case c.route.content && s.config.ReadOnly != "" && !c.dryRun():
		return fail(http.StatusForbidden, "Rules and clients cannot be changed here: %s.", s.config.ReadOnly)
	case c.route.overrides && s.config.NoOverrides != "":
		return fail(http.StatusForbidden, "There are no overrides here: %s.", s.config.NoOverrides)
	}
	return nil
}

func oneOf(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// readQuery reads the parameters of the address. Those that are not known are refused: a dry run that is misspelt must not
// be a real one.
func (c *call) readQuery() error {
	query, err := parseQuery(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	c.query = query
	for name, values := range query {
		if len(values) > 1 {
			return wrongQuery(name, values[1], "it once")
		}
		switch {
		case name == "namespace": // clients send it with every call, also with those that are about none
			if !isName(values[0]) && (c.route.scope == oneNamespace || values[0] != wildcard) {
				return wrongQuery(name, values[0], wantName)
			}
			c.namespace = values[0]
		case !slices.Contains(c.route.query, name) && !slices.Contains(c.route.query, "*"):
			want := "no parameter"
			if known := c.route.parameters(); len(known) > 0 {
				want = "one of " + strings.Join(known, ", ")
			}
			return fail(http.StatusBadRequest, "?%s is not a parameter of this: want %s.", name, want)
		case !isText(values[0]) && slices.Contains(c.route.query, name): // attributes may be anything, and are not kept
			return wrongQuery(name, values[0], "text in UTF-8 without zero bytes")
		case name == "note" && len(values[0]) > maxNote && slices.Contains(c.route.query, name):
			return wrongQuery(name, values[0], "at most 1000 bytes")
		}
	}
	return nil
}

// parameters returns those that a route knows.
func (r *route) parameters() []string {
	if r.scope == oneNamespace {
		return append([]string{"namespace"}, r.query...)
	}
	return r.query
}

// sweepEvery is how often the server looks after what time has made useless.
const sweepEvery = 10 * time.Minute

// sweep removes overrides whose time is over, until the server is closed.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.sweepOverrides(s.ended); err != nil && s.ended.Err() == nil {
			s.config.Logger.Warn("rules service: overrides that are over could not be removed", "err", err.Error())
		}
		select {
		case <-s.ended.Done():
			return
		case <-tick.C:
		}
	}
}
