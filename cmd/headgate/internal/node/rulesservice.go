package node

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/api"
	"github.com/headgate/headgate/control/follow"
	"github.com/headgate/headgate/control/keys"
	"github.com/headgate/headgate/control/open"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/control/sqlite"
	"github.com/headgate/headgate/control/webhook"
	"github.com/headgate/headgate/internal/gcpause"
	"github.com/headgate/headgate/telemetry"
)

// A rulesService is what a node has to do with rules that are not just a file: the database and its API, or the rules service
// elsewhere whose node it is.
type rulesService struct {
	db      control.DB                      // nil if it has none
	writes  atomic.Pointer[control.Monitor] // of db; nil if rules are not changed here, or not yet
	late    *late                           // nil if the database is in a file
	api     atomic.Pointer[api.Server]      // nil if it has none, or none yet
	remote  *remote.Client                  // nil if the rules service is in this process
	hook    http.Handler                    // nil if it takes no webhook
	answers *keys.Responder                 // nil if nobody is to ask this node
	temp    string                          // a directory that is to be removed, if any
	created atomic.Pointer[string]          // the token that was made, to be shown once
}

// lateTimeout is how long a start waits for a database on another host.
const lateTimeout = 10 * time.Second

// dbTimeout is how long a database may take to be opened, and to get its first rules.
const dbTimeout = 30 * time.Second

// openControl opens the rules service, or the way to one elsewhere, and puts its rules in force.
func (n *Node) openControl(ctx context.Context) error {
	if n.config.AdminAddr != config.Off {
		n.control.answers = keys.NewResponder(n.engine, n.config.ControlNamespace(), n.identity)
	}
	source, dir, err := n.openSource(ctx)
	if err != nil {
		return err
	}
	f := n.followed
	f.follower, err = follow.Open(ctx, follow.Config{
		Source: source, Dir: dir, Apply: f.apply, Changed: f.changed, Node: n.describe, Logger: n.log, Poll: n.config.PollEvery(),
		Doubt: widthsOf(n.config).doubt, Heavy: func() func() { return gcpause.Start(gcpause.ForRules) },
	})
	if late := n.control.late; err == nil && late != nil && (!f.ready() || errors.Is(late.err(), control.ErrNewer)) {
		err = late.err() // without rules on disk; or by mistake: waiting does not make this version newer
	}
	return err
}

// openSource returns where rules come from, and where they are kept for when it is away.
func (n *Node) openSource(ctx context.Context) (follow.Source, string, error) {
	c, s := n.config, n.control
	if c.Mode() == config.FromControl {
		return n.openRemote()
	}
	if !strings.Contains(c.DB, "://") {
		if err := n.openDatabase(ctx); err != nil {
			return nil, "", err
		}
		return follow.Database(s.db, c.ControlNamespace(), s.api.Load()), "", nil
	}
	// A database on another host may be away, which is no reason not to decide.
	s.late = newLate(c.DB, c.ControlNamespace())
	opening, cancel := context.WithTimeout(ctx, lateTimeout)
	defer cancel()
	n.openLate(opening)
	return s.late, n.nodeDir(), nil
}

// nodeDir returns where a node keeps its rules for when others are away.
func (n *Node) nodeDir() string {
	state, err := n.config.StateDir()
	if err != nil {
		n.log.Warn("rules are not kept on disk: without the rules service the node would start without", "err", err.Error())
		return ""
	}
	return filepath.Join(state, "node")
}

// openRemote makes the client of a rules service elsewhere.
func (n *Node) openRemote() (follow.Source, string, error) {
	settings, err := n.config.RemoteConfig(n.options.Version)
	if err != nil {
		return nil, "", err
	}
	if n.control.remote, err = remote.New(settings); err != nil {
		return nil, "", fmt.Errorf("%s: %w", n.config.Where("control"), err)
	}
	secret, err := n.config.HookSecret()
	if err != nil {
		return nil, "", err
	}
	if secret != nil {
		n.control.hook, err = webhook.NewReceiver(secret, func(_ context.Context, h webhook.Event) {
			if h.Namespace == n.config.ControlNamespace() {
				n.followed.follower.Poke()
			}
		})
		if err != nil {
			return nil, "", fmt.Errorf("rules_service.hook_secret_file: %w", err)
		}
	}
	return follow.Remote(n.control.remote), n.nodeDir(), nil
}

// openDatabase opens the database and its API, and gives a new one its first rules.
func (n *Node) openDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	c, s := n.config, n.control
	if s.db == nil {
		db, err := n.openDB(ctx)
		if err != nil {
			return err
		}
		monitor := control.NewMonitor(db, n.log)
		s.db = monitor
		s.writes.Store(monitor)
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
		settings.ReadOnly = "the database follows the file " + c.DBFollows + ": change that"
	}
	if c.AdminTokenFile == "" {
		settings.FirstToken = func(token string) { s.created.Store(&token) }
	}
	if err := n.openAPIServer(settings); err != nil {
		return err
	}
	if c.DBFollows != "" {
		m := &mirror{server: s.api.Load(), namespace: c.ControlNamespace(), path: c.DBFollows, log: n.log}
		n.followed.mirror.Store(m)
		if err := m.load(ctx); err != nil && last == 0 {
			return fmt.Errorf("%s: %w", c.Where("db-follows"), err)
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

// openDB opens the database that the configuration names, or the one in the directory for state. If that cannot be and nobody
// has asked for it, it is one that ends with the process.
func (n *Node) openDB(ctx context.Context) (control.DB, error) {
	c := n.config
	if c.DB != "" {
		db, err := open.Open(ctx, c.DB, open.Options{Logger: n.log})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Where("db"), err)
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
	if c.Given("data-dir") || errors.Is(err, control.ErrNewer) {
		return nil, fmt.Errorf("%s: %w", c.Where("data-dir"), err)
	}
	n.log.Warn("rules and tokens that are made here are lost when this process ends; give --data-dir or --db", "err", err.Error())
	return n.openTemporary(ctx)
}

// openTemporary opens a database that ends with the process.
func (n *Node) openTemporary(ctx context.Context) (control.DB, error) {
	dir, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		return nil, err
	}
	n.control.temp = dir
	return sqlite.Open(ctx, filepath.Join(dir, "rules.db"))
}

// openAPIServer makes the API of the database.
func (n *Node) openAPIServer(settings api.Config) (err error) {
	s := n.control
	if settings.AdminToken, err = n.config.AdminToken(); err != nil {
		return err
	}
	settings.DB, settings.Logins, settings.Logger = s.db, n.logins, n.log
	settings.Node, settings.NodeID, settings.NodeNamespace, settings.Identifier = n.engine, n.id, n.config.ControlNamespace(), n.identity
	if settings.NodeTLS, err = n.config.RulesServiceTLS(); err != nil {
		return err
	}
	settings.Hooks.Networks = n.config.RulesService.HookNetworks
	made, err := api.New(settings)
	if err != nil {
		return err
	}
	s.api.Store(made)
	return nil
}

// openView makes the API show the rules of a file, which it cannot change. It is not what a node is for, so that it goes on
// without.
func (n *Node) openView(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	db, err := n.openTemporary(ctx)
	if err != nil {
		n.log.Warn("the API cannot show the rules", "err", err.Error())
		return nil
	}
	n.control.db = db
	err = n.openAPIServer(api.Config{
		ReadOnly:    "the rules are those of the file " + n.config.Rules + ": change that",
		NoOverrides: "the rules are those of a file, without a database: start headgate with --db, and with --db-follows if the file is to stay the truth",
	})
	if err != nil {
		return err
	}
	n.rules.mirror(&mirror{server: n.control.api.Load(), namespace: n.config.ControlNamespace(), path: n.config.Rules, log: n.log})
	return nil
}

// pruneEvery is how often old changes are forgotten.
const pruneEvery = 24 * time.Hour

// prune forgets changes that are older than the configuration wants to know, again and again until ctx ends.
func (n *Node) prune(ctx context.Context) {
	keep := n.config.KeepHistory()
	if keep == 0 {
		return
	}
	wait := mathrand.N(time.Hour) // not all instances of one database at once
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = pruneEvery
		working, cancel := context.WithTimeout(ctx, 10*time.Minute)
		count, err := n.control.db.Prune(working, time.Now().Add(-keep))
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			n.log.Warn("old changes were not forgotten", "err", err.Error())
		case count > 0:
			n.log.Info("old changes were forgotten", "changes", count)
		}
	}
}

// nodeID returns how the rules service knows a node: a name that it has again when it is started again, and that another on
// the same host does not have.
func nodeID(c *config.Config) string {
	if c.NodeID != "" {
		return c.NodeID
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	state, _ := c.StateDir() // an empty one tells nodes apart by addresses alone
	apart := []string{state, c.GatewayAddr, c.APIAddr, c.GRPCAddr, c.RESPAddr, c.AdminAddr}
	for i := range c.Gateway.Listeners {
		apart = append(apart, c.Gateway.Listeners[i].Address)
	}
	for _, addr := range apart[1:] {
		if strings.HasSuffix(addr, ":0") { // many may have that
			apart = append(apart, rand.Text())
			break
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(apart, "\n")))
	if len(host) > 100 {
		host = host[:100]
	}
	return strings.Map(plainRune, host) + "-" + hex.EncodeToString(sum[:3])
}

func plainRune(r rune) rune {
	if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '-'
}

// handler answers on the admin listener: the rules service, and before it what telemetry has.
func (s *rulesService) handler(others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		ours := path == "/v1" || strings.HasPrefix(path, "/v1/") || path == "/openapi.json"
		switch server := s.api.Load(); {
		case s.hook != nil && path == "/v1/hooks/rules":
			s.hook.ServeHTTP(w, r)
		case s.answers != nil && path == "/v1/hooks/keys":
			s.answers.ServeHTTP(w, r)
		case ours && server != nil:
			server.ServeHTTP(w, r)
		case ours && s.late != nil:
			w.Header().Set("Retry-After", "5")
			refuse(w, http.StatusServiceUnavailable, "The database of the rules cannot be reached.")
		case ours && s.remote != nil:
			refuse(w, http.StatusNotFound, "This node has no rules service of its own. Its rules are those of "+s.remote.Name()+": ask there.")
		default:
			others.ServeHTTP(w, r)
		}
	})
}

// database returns whether rules can be changed, nil if they are not changed here.
func (s *rulesService) database() *telemetry.DatabaseStatus {
	m := s.writes.Load()
	if m == nil {
		return nil
	}
	made := &telemetry.DatabaseStatus{Name: m.Name(), Writable: true}
	if err := m.Writable(context.Background()); err != nil {
		made.Writable, made.Error, made.Todo = false, err.Error(), control.Remedy(err)
	}
	return made
}

// measure adds whether the database can be written to the sources of each scrape.
func (s *rulesService) measure(to *telemetry.Sources) { to.Database = s.database }

// stop ends what the API does, so that those who watch do not hold its listener.
func (s *rulesService) stop() error {
	if server := s.api.Load(); server != nil {
		return server.Close()
	}
	return nil
}

// close closes what was opened.
func (s *rulesService) close() error {
	var errs []error
	errs = append(errs, s.stop())
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.remote != nil {
		errs = append(errs, s.remote.Close())
	}
	if s.temp != "" {
		errs = append(errs, os.RemoveAll(s.temp))
	}
	return errors.Join(errs...)
}
