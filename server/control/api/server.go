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

	"github.com/headgate/headgate/server/control/api/internal/trafficapi"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/alerts"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/feed"
	"github.com/headgate/headgate/server/control/fleettraffic"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/nodes"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/control/webhook"
)

// A Server is the HTTP handler of /v1/ and /openapi.json. In the background, it notifies watchers, delivers webhooks
// and evaluates alerts. It is safe for concurrent use.
type Server struct {
	config    Config
	editor    *edit.Editor
	tokens    *token.Store
	hub       *feed.Hub
	snapshots *feed.Snapshots
	nodes     *nodes.Registry
	poller    *nodequery.Poller
	webhooks  *webhook.Service
	traffic   *fleettraffic.Store
	alerts    *alerts.Service
	bodies    *call.Bodies

	trafficCalls *trafficapi.Handlers

	tuning
	lifecycle
}

// tuning has values that are constant except in tests.
type tuning struct {
	keepAlive    time.Duration // interval of comments in streams
	importChunk  int           // clients per change of an import
	importPruned int           // maximum number of clients in an import that deletes others
}

// A lifecycle ends the background work of a server and waits for it.
type lifecycle struct {
	stop  context.CancelFunc
	ended context.Context // ends with Close

	mu      sync.Mutex // guards closed and calls of running.Add, which must not follow running.Wait
	closed  bool
	running sync.WaitGroup // background work and calls
}

var _ http.Handler = (*Server)(nil)

// startTimeout limits the use of the database by New.
const startTimeout = 30 * time.Second

// New returns a Server and starts its background work, which ends with Close. It returns an error if the Config is
// invalid or the database cannot be used.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		config: c, bodies: call.NewBodies(c.MaxBody),
		tuning: tuning{keepAlive: defaultKeepAlive, importChunk: defaultImportChunk, importPruned: maxImportPruned},
		hub:    feed.NewHub(c.DB, c.MaxWatchers, c.Logger), snapshots: feed.NewSnapshots(c.DB, c.MaxCached),
		nodes: nodes.NewRegistry(c.DB, c.Now),
		traffic: fleettraffic.NewStore(fleettraffic.Options{
			DB: c.DB, Namer: c.Namer, Now: c.Now, Logger: c.Logger, LocalNode: c.NodeID, Erased: c.TrafficErased,
		}),
	}
	var err error
	s.tokens, err = token.NewStore(token.Options{
		DB: c.DB, Logins: c.Logins, AdminToken: c.AdminToken, Now: c.Now, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if s.webhooks, err = webhook.NewService(c.DB, c.Hooks, c.Now, c.Logger); err != nil {
		return nil, fmt.Errorf("api: Hooks: %w", err)
	}
	s.editor = edit.NewEditor(edit.Options{DB: c.DB, Now: c.Now, Logger: c.Logger, Committed: s.committed})
	s.poller = nodequery.NewPoller(nodequery.PollerOptions{
		Registry: s.nodes, Local: c.Node, LocalID: c.NodeID, LocalCounters: c.NodeCounters,
		LocalNamespace: c.NodeNamespace, Identifier: c.Identifier, LocalTraffic: c.NodeTraffic, TLS: c.NodeTLS, Now: c.Now,
	})
	s.alerts = s.newAlerts()
	s.ended, s.stop = context.WithCancel(context.Background())
	s.trafficCalls = trafficapi.New(trafficapi.Options{
		Store: s.traffic, DB: c.DB, Nodes: s.nodes, Poller: s.poller, Editor: s.editor, Identifier: c.Identifier, Namer: c.Namer,
		Now: c.Now, Local: c.Node, LocalNamespace: c.NodeNamespace, MaxStreams: c.MaxWatchers,
		TokenCheckInterval: func() time.Duration { return s.keepAlive }, TokenValid: s.isTokenValid, StreamContext: s.ended,
		RecordEvent: s.recordEvent, NodeHistory: c.NodeHistory,
	})
	startCtx, cancel := context.WithTimeout(s.ended, startTimeout)
	defer cancel()
	secret, err := s.ensureAdmin(startCtx)
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("api: the first token: %w", err)
	}
	if secret != "" {
		c.FirstToken(secret)
	}
	s.running.Go(func() { s.hub.Run(s.ended) })
	s.running.Go(func() { s.webhooks.Run(s.ended) })
	s.running.Go(func() { s.editor.Preload(s.ended) })
	s.running.Go(s.deleteExpired)
	s.running.Go(func() { s.traffic.Run(s.ended) })
	s.running.Go(func() { s.alerts.Run(s.ended) })
	return s, nil
}

// ensureAdmin creates a token with all rights if there is none, and returns its secret.
func (s *Server) ensureAdmin(ctx context.Context) (string, error) {
	if s.config.FirstToken == nil {
		return "", nil
	}
	return s.tokens.EnsureAdmin(ctx)
}

// committed notifies watchers and webhooks of a committed change.
func (s *Server) committed(c *control.Change) {
	s.hub.Notify()
	s.webhooks.Announce(c.Namespace, c.Revision, c.Time)
}

// Close ends background work and calls, and waits for them. It does not close the database.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	s.snapshots.Close()
	s.poller.Close()
	return nil
}

// startCall registers a call and returns true, unless the server is closed. The call must end with running.Done.
func (s *Server) startCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// callTimeout limits calls that are not streamed.
const callTimeout = time.Minute

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	err := s.serve(w, r)
	if err == nil {
		return
	}
	p, internal := problemOf(err)
	if internal {
		s.config.Logger.Error("rules service: a call failed", "method", r.Method, "path", r.URL.Path, "err", err.Error())
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="headgate"`)
	}
	p.Write(w)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if !s.startCall() {
		return errClosed()
	}
	defer s.running.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	r = r.WithContext(ctx)
	route, args, methods := findRoute(r.Method, r.URL.EscapedPath())
	switch {
	case route == nil && methods == nil:
		return problem.New(http.StatusNotFound, "There is no call %s. /openapi.json lists the calls.",
			rules.Quote(r.URL.Path))
	case route == nil:
		slices.Sort(methods)
		allow := strings.Join(slices.Compact(methods), ", ")
		w.Header().Set("Allow", allow)
		return problem.New(http.StatusMethodNotAllowed, "Use %s.", allow)
	}
	c := call.New(w, r, s.bodies)
	c.Args, c.Parameters = args, route.Query
	defer c.End()
	if from := s.config.From(r); from.IsValid() {
		c.From = from.String()
	}
	if err := s.authorize(route, c); err != nil {
		return err
	}
	err := route.serve(s, c)
	if err != nil && s.ended.Err() != nil && errors.Is(err, context.Canceled) {
		return errClosed()
	}
	return err
}

func errClosed() error {
	p := problem.New(http.StatusServiceUnavailable, "The rules service is stopping.")
	p.RetryAfter = time.Second
	return p
}

// authorize checks the caller's token, reads the query parameters, and checks whether this server allows the call.
func (s *Server) authorize(route *Route, c *call.Call) error {
	if route.Roles != nil {
		caller, err := s.authenticate(c)
		if err != nil {
			return err
		}
		c.Caller = caller
		if !slices.Contains(route.Roles, caller.Role) {
			return problem.New(http.StatusForbidden, "The token %s has the role %s. This call requires the role %s.",
				caller.ID, caller.Role, token.JoinRoles(route.Roles))
		}
	}
	if err := route.readQuery(c); err != nil {
		return err
	}
	switch {
	case route.scope == oneNamespace && !c.Caller.Covers(c.Namespace):
		return problem.New(http.StatusForbidden, "The token %s is not valid for the namespace %s.", c.Caller.ID, c.Namespace)
	case route.scope == allNamespaces && !c.Caller.CoversAll():
		return problem.New(http.StatusForbidden,
			"The token %s is not valid for all namespaces, which this call requires.", c.Caller.ID)
	case route.Content && s.config.ReadOnly != "" && !c.IsDryRun():
		return problem.New(http.StatusForbidden, "Rules and clients cannot be changed here: %s.", s.config.ReadOnly)
	case route.target == overrides && s.config.NoOverrides != "":
		return problem.New(http.StatusForbidden, "There are no overrides here: %s.", s.config.NoOverrides)
	case route.target == enforcement && s.config.NoOverrides != "":
		return problem.New(http.StatusForbidden,
			"Here, enforcement can only be switched for this node, with /v1/node/enforcement: %s.", s.config.NoOverrides)
	}
	return nil
}

// authenticate returns the caller of a call.
func (s *Server) authenticate(c *call.Call) (*token.Principal, error) {
	text := token.FromRequest(c.R)
	if text == "" {
		return nil, problem.New(http.StatusUnauthorized, "Send a token: Authorization: Bearer TOKEN.")
	}
	return s.tokens.Authenticate(c.R.Context(), text, s.config.From(c.R))
}

// Tokens returns the store of tokens, with which other handlers of the same listener authenticate callers.
func (s *Server) Tokens() *token.Store { return s.tokens }

// Traffic returns the store of traffic statistics, to which the node in this process reports.
func (s *Server) Traffic() *fleettraffic.Store { return s.traffic }

// expireInterval is the interval at which expired overrides and suspensions are deleted.
const expireInterval = 10 * time.Minute

// deleteExpired deletes expired overrides and suspensions until the server is closed.
func (s *Server) deleteExpired() {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		if err := s.editor.DeleteExpiredOverrides(s.ended); err != nil && s.ended.Err() == nil {
			s.config.Logger.Warn("rules service: cannot delete expired overrides, trying again later", "err", err.Error())
		}
		if err := s.editor.DeleteExpiredSuspensions(s.ended); err != nil && s.ended.Err() == nil {
			s.config.Logger.Warn("rules service: cannot delete expired suspensions, trying again later", "err", err.Error())
		}
		select {
		case <-s.ended.Done():
			return
		case <-tick.C:
		}
	}
}
