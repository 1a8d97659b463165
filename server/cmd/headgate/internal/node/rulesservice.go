package node

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/gcpause"
	"github.com/headgate/headgate/server/cmd/headgate/internal/clientip"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/hostguard"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/open"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/control/webhook"
	"github.com/headgate/headgate/server/telemetry"
)

// A rulesService is the rules service in this process, with its database and API, or the client of a remote one.
type rulesService struct {
	db         control.DB                      // nil with a remote rules service
	monitor    atomic.Pointer[control.Monitor] // knows whether db accepts changes; nil if db is read-only or not open yet
	deferred   *follow.Deferred                // source of a database on another host; nil if the database is a file
	api        atomic.Pointer[api.Server]      // nil without a database, and until the database is open
	remote     *remote.Client                  // nil if the rules service is in this process
	hook       http.Handler                    // receives webhooks; nil if none are configured
	keyQueries *nodequery.Responder            // serves queries about clients; nil without an admin listener
	ownTraffic *ownTraffic                     // serves the traffic of this node; nil unless the rules service is remote
	tempDir    string                          // removed by close, if not empty
	firstToken atomic.Pointer[string]          // the admin token of a new database, until it is printed
}

// sourceTimeout is how long Open waits for a database on another host.
const sourceTimeout = 10 * time.Second

// dbTimeout is the timeout for opening a database and writing its first rules.
const dbTimeout = 30 * time.Second

// openControl opens the rules service, or a client of a remote one, and applies its rules.
func (n *Node) openControl(ctx context.Context) error {
	if n.config.AdminAddr != config.Off {
		n.rulesService.keyQueries = nodequery.NewResponder(n.engine, n.config.ControlNamespace(), n.identity,
			n.serveTrafficQuery)
	}
	source, dir, err := n.openSource(ctx)
	if err != nil {
		return err
	}
	f := n.followedRules
	f.follower, err = follow.Open(ctx, follow.Config{
		Source: source, Dir: dir, Apply: f.apply, Changed: f.onStatus, Suspend: n.enforcement.setFleetSuspensions,
		Node: n.describe, Logger: n.componentLogger("rules"),
		Poll: n.config.PollEvery(), CheckClient: clientip.New(n.config).Warn,
		HeavyWork: func() func() { return gcpause.Start(gcpause.ForRules) },
	})
	if err != nil {
		return err
	}
	deferred := n.rulesService.deferred
	if deferred == nil {
		return nil
	}
	if dbErr := deferred.Err(); !f.ready() || errors.Is(dbErr, control.ErrNewerSchema) {
		return dbErr // there are no rules on disk either, or the database needs a newer version of Headgate
	}
	return nil
}

// openSource returns the source of the rules, and the directory for a copy of the rules, which the node uses if the
// source is unreachable at its start.
func (n *Node) openSource(ctx context.Context) (follow.Source, string, error) {
	c, s := n.config, n.rulesService
	if c.RulesSource() == config.FromControl {
		return n.openRemote(ctx)
	}
	if !strings.Contains(c.DB, "://") {
		if err := n.openDatabase(ctx); err != nil {
			return nil, "", err
		}
		return follow.Database(s.db, c.ControlNamespace(), s.api.Load()), "", nil
	}
	// A database on another host may be unreachable. Then the node starts with the rules on disk.
	s.deferred = follow.NewDeferred(c.DB, c.ControlNamespace())
	openCtx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	n.tryOpenDatabase(openCtx)
	return s.deferred, n.nodeDir(), nil
}

// nodeDir returns the directory for the copy of the rules, or "" if there is none.
func (n *Node) nodeDir() string {
	state, err := n.config.StateDir()
	if err != nil {
		n.log.Warn("no copy of the rules on disk: the node cannot start while the rules service is unreachable", "err",
			err.Error())
		return ""
	}
	return filepath.Join(state, "node")
}

// openRemote creates the client of a remote rules service.
func (n *Node) openRemote(ctx context.Context) (follow.Source, string, error) {
	settings, err := n.config.RemoteConfig(n.options.Version)
	if err != nil {
		return nil, "", err
	}
	if n.rulesService.remote, err = remote.New(settings); err != nil {
		return nil, "", fmt.Errorf("%s: %w", n.config.Origin("control"), err)
	}
	secret, err := n.config.HookSecret()
	if err != nil {
		return nil, "", err
	}
	if secret != nil {
		n.rulesService.hook, err = webhook.NewReceiver(secret, func(_ context.Context, h webhook.Event) {
			if h.Event == webhook.EventRevision && h.Namespace == n.config.ControlNamespace() {
				n.followedRules.follower.Refresh()
			}
		})
		if err != nil {
			return nil, "", fmt.Errorf("rules_service.hook_secret_file: %w", err)
		}
	}
	if err := n.openOwnTraffic(ctx); err != nil {
		return nil, "", err
	}
	return follow.Remote(n.rulesService.remote), n.nodeDir(), nil
}

// openDatabase opens the database and its API, and brings the rules in the database up to date:
//
//   - With --db-follows, it copies the file to the database.
//   - With the built-in upstream, it adds the demo rules to a new database, and to one from which removeDemoRules has
//     deleted all rules.
//   - With a gateway for another upstream, it calls removeDemoRules.
//
// It can be called again after an error.
func (n *Node) openDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	c, s := n.config, n.rulesService
	if s.db == nil {
		db, err := n.openDB(ctx)
		if err != nil {
			return err
		}
		monitor := control.NewMonitor(db, n.componentLogger("rules"))
		s.db = monitor
		s.monitor.Store(monitor)
	}
	last, _, err := s.db.Revision(ctx, c.ControlNamespace())
	if err != nil {
		return err
	}
	if last > 0 && !c.GatewayOff() && !c.NeedsDemo() {
		if err := n.removeDemoRules(ctx); err != nil {
			return err
		}
	}
	settings := api.Config{}
	if c.DBFollows != "" {
		settings.ReadOnly = "the database follows the file " + c.DBFollows + ": change the file"
	}
	if c.AdminTokenFile == "" {
		settings.FirstToken = func(token string) { s.firstToken.Store(&token) }
	}
	if err := n.openAPIServer(settings); err != nil {
		return err
	}
	if c.DBFollows != "" {
		m := &fileMirror{server: s.api.Load(), namespace: c.ControlNamespace(), path: c.DBFollows, log: n.componentLogger("rules")}
		n.followedRules.mirror.Store(m)
		if err := m.load(ctx); err != nil && last == 0 {
			return fmt.Errorf("%s: %w", c.Origin("db-follows"), err)
		}
		return nil
	}
	if !c.NeedsDemo() {
		return nil
	}
	if last > 0 {
		if removed, err := n.demoRulesRemoved(ctx); err != nil || !removed {
			return err
		}
	}
	return n.addDemoRules(ctx)
}

// openDB opens the configured database or, by default, a file in the state directory. If that fails and neither a
// database nor the directory is configured, it opens a temporary database.
func (n *Node) openDB(ctx context.Context) (control.DB, error) {
	c := n.config
	if c.DB != "" {
		db, err := open.Open(ctx, c.DB, open.Options{Logger: n.componentLogger("rules")})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Origin("db"), err)
		}
		return db, nil
	}
	dir, err := c.StateDir()
	if err == nil {
		var db control.DB
		if db, err = sqlite.Open(ctx, filepath.Join(dir, "rules.db")); err == nil {
			return db, nil
		}
	}
	if c.IsSet("data-dir") || errors.Is(err, control.ErrNewerSchema) {
		return nil, fmt.Errorf("%s: %w", c.Origin("data-dir"), err)
	}
	n.log.Warn("no database, rules and tokens are lost when this process ends; set --data-dir or --db", "err", err.Error())
	return n.openTemporaryDB(ctx)
}

// openTemporaryDB opens a database that is deleted when the node is closed.
func (n *Node) openTemporaryDB(ctx context.Context) (control.DB, error) {
	dir, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		return nil, err
	}
	n.rulesService.tempDir = dir
	return sqlite.Open(ctx, filepath.Join(dir, "rules.db"))
}

// openAPIServer creates the rules API for the database.
func (n *Node) openAPIServer(settings api.Config) error {
	server, err := n.newAPIServer(n.rulesService.db, settings)
	if err == nil {
		n.rulesService.api.Store(server)
	}
	return err
}

// newAPIServer returns an API of this node.
func (n *Node) newAPIServer(db control.DB, settings api.Config) (_ *api.Server, err error) {
	if settings.AdminToken, err = n.config.AdminToken(); err != nil {
		return nil, err
	}
	settings.DB, settings.Logins, settings.Logger = db, n.logins, n.componentLogger("rules")
	settings.Node, settings.NodeID, settings.NodeNamespace, settings.Identifier = n.engine, n.id,
		n.config.ControlNamespace(), n.identity
	settings.NodeCounters = n.config.SharedCountersID()
	settings.DemoTraffic = n.demoSwitch
	if settings.NodeTLS, err = n.config.RulesServiceTLS(); err != nil {
		return nil, err
	}
	settings.Namer, settings.TrafficErased, settings.NodeTraffic = n.namer, n.eraseTraffic, n.serveTrafficQuery
	settings.Hooks.Networks = n.config.RulesService.HookNetworks
	return api.New(settings)
}

// openReadOnlyAPI creates an API that shows the rules of a file, but cannot change them. If its temporary database
// cannot be created, the node runs without the API.
func (n *Node) openReadOnlyAPI(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	db, err := n.openTemporaryDB(ctx)
	if err != nil {
		n.log.Warn("no temporary database, the API does not show the rules", "err", err.Error())
		return nil
	}
	n.rulesService.db = db
	err = n.openAPIServer(api.Config{
		ReadOnly: "the rules come from the file " + n.config.Rules + ": change the file",
		NoOverrides: "the rules come from a file, without a database: start headgate with --db, and with --db-follows to " +
			"keep using the file",
	})
	if err != nil {
		return err
	}
	n.fileRules.mirrorTo(&fileMirror{
		server: n.rulesService.api.Load(), namespace: n.config.ControlNamespace(),
		path: n.config.Rules, log: n.componentLogger("rules"),
	})
	return nil
}

// pruneEvery is the time between two deletions of old changes.
const pruneEvery = 24 * time.Hour

// pruneHistory deletes old changes every pruneEvery, until ctx ends. The configuration sets how long changes are kept.
func (n *Node) pruneHistory(ctx context.Context) {
	keep := n.config.KeepHistory()
	if keep == 0 {
		return
	}
	wait := mathrand.N(time.Hour) // random, so that nodes with the same database do not prune at the same time
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = pruneEvery
		pruneCtx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		count, err := n.rulesService.db.Prune(pruneCtx, time.Now().Add(-keep))
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			n.log.Warn("pruning the history failed", "err", err.Error())
		case count > 0:
			n.log.Info("history pruned", "changes", count)
		}
	}
}

// handler returns a handler for the admin listener. It serves the API of the rules service, and passes requests for all
// other paths to next.
func (s *rulesService) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		isAPI := path == "/v1" || strings.HasPrefix(path, "/v1/") || path == "/openapi.json"
		switch server := s.api.Load(); {
		case s.hook != nil && path == "/v1/hooks/rules":
			s.hook.ServeHTTP(w, r)
		case s.keyQueries != nil && path == "/v1/hooks/keys":
			s.keyQueries.ServeHTTP(w, r)
		case isAPI && server != nil:
			server.ServeHTTP(w, r)
		case isAPI && s.deferred != nil:
			w.Header().Set("Retry-After", "5")
			hostguard.WriteProblem(w, http.StatusServiceUnavailable, "The database of the rules is unreachable.")
		case s.ownTraffic.serves(r):
			s.ownTraffic.server.ServeHTTP(w, r)
		case isAPI && s.remote != nil:
			hostguard.WriteProblem(w, http.StatusNotFound,
				remote.NoService+" Its rules come from "+s.remote.Name()+": send the request there.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// databaseStatus returns the status of the database, nil if this process has no database that it can change.
func (s *rulesService) databaseStatus() *telemetry.DatabaseStatus {
	m := s.monitor.Load()
	if m == nil {
		return nil
	}
	status := &telemetry.DatabaseStatus{Name: m.Name(), Writable: true}
	if err := m.Writable(context.Background()); err != nil {
		status.Writable, status.Error, status.Todo = false, err.Error(), control.Remedy(err)
	}
	return status
}

// stop closes the API, so that open watch streams do not delay the shutdown of the admin listener.
func (s *rulesService) stop() error {
	err := s.ownTraffic.stop()
	if server := s.api.Load(); server != nil {
		err = errors.Join(err, server.Close())
	}
	return err
}

// close closes the API, the database and the client.
func (s *rulesService) close() error {
	errs := []error{s.stop(), s.ownTraffic.close()}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.remote != nil {
		errs = append(errs, s.remote.Close())
	}
	if s.tempDir != "" {
		errs = append(errs, os.RemoveAll(s.tempDir))
	}
	return errors.Join(errs...)
}
