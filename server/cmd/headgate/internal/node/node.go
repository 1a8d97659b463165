package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
	"github.com/headgate/headgate/server/cmd/headgate/internal/clientip"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/server/cmd/headgate/internal/descriptors"
	"github.com/headgate/headgate/server/cmd/headgate/internal/healthmeter"
	"github.com/headgate/headgate/server/cmd/headgate/internal/hostguard"
	"github.com/headgate/headgate/server/cmd/headgate/internal/limiters"
	"github.com/headgate/headgate/server/docsite"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/overload"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/telemetry"
	"github.com/headgate/headgate/server/telemetry/traces"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
	"github.com/headgate/headgate/server/ui"
)

// Options are the settings of a node that are not in its configuration.
type Options struct {
	// Version is the version of the program.
	Version string
	// Logger is required.
	Logger *slog.Logger
	// LogLines, if not nil, is the destination of Logger. The access log writes many lines at once to it. Default nil,
	// with which each line is written separately.
	LogLines *telemetry.LineWriter
	// Banner, if not nil, receives the addresses of the node and some commands to try.
	Banner io.Writer
	// Secrets, if not nil, receives the first admin token of a new database.
	Secrets io.Writer
	// Docs, if not nil, builds the documentation that the admin listener serves at /docs/.
	Docs func() (*docsite.Site, error)
}

// A Node is one Headgate process. Create it with Open and call Run once.
type Node struct {
	config  *config.Config
	options Options
	log     *slog.Logger
	id      string
	started time.Time
	state   atomic.Value // telemetry.State
	reloads chan struct{}

	stores      *limiters.Stores
	fleet       *limiters.Fleet
	jwtVerifier *jwt.Verifier // nil if no tokens are accepted
	identity    *identity.Identifier
	engine      *engine.Engine
	observers
	rulesSource
	listeners
}

// observers record statistics and events of a node.
type observers struct {
	metrics     *telemetry.Metrics
	logins      *service.Logins // failed logins on all listeners that take tokens
	namer       *traffic.Namer
	recorder    *traffic.Recorder
	health      healthmeter.Meter
	reporter    *trafficReporter
	decisionLog *decisionlog.Log // nil if clients are not counted
	ownTraffic  *traffic.History // statistics of this node for 24 hours
	tracer      *traces.Tracer   // nil if traces are off
	overload    *overload.Monitor
}

// A rulesSource has the parts that get the rules of a node and put them in force.
type rulesSource struct {
	fileRules     *fileRules     // nil unless the rules come from a file
	followedRules *followedRules // nil if the rules come from a file
	rulesService  *rulesService
	enforcement   *enforcement
}

// listeners are the servers of a node.
type listeners struct {
	descriptors *descriptors.Plan
	gateway     *gateway.Gateway // nil if it is off
	service     decisionService
	admin       *server       // nil if it is off
	demo        *server       // the built-in upstream; nil if an upstream is configured
	demoTraffic *demo.Traffic // sends requests to the built-in upstream; nil without it
}

var errNothingToServe = errors.New("all addresses are off: there is nothing to serve")

// Open creates a node. It opens the stores, reads the rules and opens the listeners, but does not accept connections
// yet. If it fails, it closes everything that it has opened.
func Open(ctx context.Context, c *config.Config, o Options) (*Node, error) {
	n := &Node{
		config: c, options: o, log: o.Logger, started: time.Now().UTC(), id: c.NodeName(),
		rulesSource: rulesSource{rulesService: &rulesService{}}, reloads: make(chan struct{}, 1),
	}
	n.state.Store(telemetry.Starting)
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	c := n.config
	if c.GatewayOff() && c.ServiceOff() && c.AdminAddr == config.Off {
		return errNothingToServe
	}
	n.metrics = telemetry.New(n.options.Version)
	n.overload = overload.New(overload.Options{Logger: n.log, Measured: n.adjustTurns})
	var err error
	if n.logins, err = service.NewLogins(service.LoginOptions{Logger: n.log}); err != nil {
		return err
	}
	secret, err := c.Secret()
	if err != nil {
		return err
	}
	secondSecret, err := c.SecondSecret()
	if err != nil {
		return err
	}
	if err := n.openIdentity(ctx, secret, secondSecret); err != nil {
		return err
	}
	// New also validates the settings of the gateway, so it is called before the database is opened.
	if n.descriptors, err = descriptors.New(n.config, conns.DescriptorLimit(), n.log); err != nil {
		return err
	}
	if n.stores, err = limiters.OpenStores(ctx, limiters.StoreOptions{
		Config: c, Secret: secret, SecondSecret: secondSecret, MayBeUnreachable: true, Metrics: n.metrics,
		Logger: n.componentLogger("store"),
	}); err != nil {
		return err
	}
	n.fleet = limiters.NewFleet(c, n.stores, n.id, n.componentLogger("fleet"))
	if err := n.fleet.Open(ctx, secret); err != nil {
		return err
	}
	n.openTraffic(secret)
	if err := n.openTraces(ctx); err != nil {
		return err
	}
	if err := n.openEngine(ctx, secret, secondSecret); err != nil {
		return err
	}
	if !c.GatewayOff() {
		if err := n.openGateway(); err != nil {
			return err
		}
	}
	if err := n.openDecisionService(); err != nil {
		return err
	}
	if c.AdminAddr != config.Off {
		if err := n.openAdmin(); err != nil {
			return err
		}
	}
	return n.registerMetrics()
}

func (n *Node) openAdmin() error {
	c := n.config
	handler, err := ui.Handler(n.rulesService.handler(telemetry.Admin{Metrics: n.metrics, Status: n.Status}.Handler()))
	if err != nil {
		return err
	}
	nodeAPI, err := n.newNodeAPI()
	if err != nil {
		return err
	}
	handler = shedding(n.overload, n.withDocs(nodeAPI.handler(handler)))
	certificates, checkEvery, err := c.AdminCertificates()
	if err != nil {
		return err
	}
	if n.admin, err = listen("admin", c.AdminAddr, hostguard.Admin(c).Guard(handler), n.componentLogger("admin")); err != nil {
		return fmt.Errorf("%s: %w", c.Origin("admin-addr"), err)
	}
	n.admin.limitConns(n.connLimits(c.Admin.MaxConnsPerAddress).New("admin", c.AdminMaxConns(), "", n.componentLogger("admin")))
	if certificates != nil {
		n.admin.useTLS(certificates, checkEvery, c.AdminMinVersion())
	} else if n.config.RulesSource() != config.FromControl && !onLoopback(n.admin.listener.Addr()) {
		n.log.Warn("other hosts can reach the rules service, and tokens are sent to it unencrypted; "+
			"configure certificates in admin.tls", "address", n.admin.addr())
	}
	return nil
}

// withDocs adds the documentation to a handler. Readers need no token, because it contains nothing about this node.
func (n *Node) withDocs(next http.Handler) http.Handler {
	const prefix = "/docs/"
	if n.options.Docs == nil {
		return next
	}
	site := docsite.Handler(prefix, n.options.Docs)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path+"/" == prefix || strings.HasPrefix(r.URL.Path, prefix) {
			site.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// keysTimeout is how long Open waits for the keys that verify tokens. Until the keys are there, requests have no user.
const keysTimeout = 3 * time.Second

func (n *Node) openIdentity(ctx context.Context, secret, secondSecret []byte) error {
	settings, err := n.config.JWTConfig()
	if err != nil {
		return err
	}
	var tokens identity.TokenVerifier
	if settings != nil {
		settings.Logger = n.log
		if n.jwtVerifier, err = jwt.New(*settings); err != nil {
			return fmt.Errorf("identity.jwt: %w", err)
		}
		tokens = n.jwtVerifier
		waitCtx, cancel := context.WithTimeout(ctx, keysTimeout)
		defer cancel()
		if err := n.jwtVerifier.Wait(waitCtx); err != nil {
			n.log.Warn("no keys to verify tokens yet, ignoring tokens until they can be read", "err", err.Error())
		}
	}
	identityConfig := n.config.IdentityConfig(secret, tokens)
	identityConfig.SecondSecret = secondSecret
	n.identity, err = identity.New(identityConfig)
	return err
}

func (n *Node) openEngine(ctx context.Context, secret, secondSecret []byte) error {
	settings := engine.Config{
		Store: n.stores.Main(), Local: n.stores.Memory, Shared: n.stores.Shared(), Modes: n.fleet.ByConsistency(),
		Global: n.fleet.Global(), Secret: secret, SecondSecret: secondSecret, Observe: n.metrics.Observe, Trace: n.tracer.Phases(),
		OnError: n.faultLogger("engine"), TooBusy: n.overload.Refuses,
	}
	if n.config.RulesSource() == config.FromFile {
		return n.openFileRules(ctx, settings)
	}
	var err error
	if n.engine, err = engine.New(settings); err != nil {
		return err
	}
	n.enforcement = newEnforcement(n.engine, n.stores.Shared(), n.metrics, n.componentLogger("rules"))
	n.followedRules = &followedRules{
		enforcement: n.enforcement, storesShared: n.stores.Shared(), metrics: n.metrics,
	}
	return n.openControl(ctx)
}

// openFileRules loads the rules file and creates the engine with its rules.
func (n *Node) openFileRules(ctx context.Context, settings engine.Config) error {
	n.fileRules = &fileRules{
		path: n.config.Rules, storesShared: n.stores.Shared(), prefixes: clientip.New(n.config), metrics: n.metrics,
		log: n.componentLogger("rules"),
	}
	set, err := n.fileRules.loadFirst()
	if err != nil {
		return n.wrapRulesError(err)
	}
	settings.Rules = set
	if n.engine, err = engine.New(settings); err != nil {
		return n.wrapRulesError(Locate(n.config.Rules, n.fileRules.data, err))
	}
	n.enforcement = newEnforcement(n.engine, n.stores.Shared(), n.metrics, n.componentLogger("rules"))
	if _, err := n.enforcement.apply(set); err != nil {
		return err
	}
	n.fileRules.start(n.enforcement)
	if n.config.AdminAddr == config.Off {
		return nil
	}
	return n.openReadOnlyAPI(ctx)
}

// wrapRulesError adds the setting of the rules file to an error.
func (n *Node) wrapRulesError(err error) error {
	return fmt.Errorf("%s: %w", n.config.Origin("rules"), err)
}

func (n *Node) openGateway() error {
	var demoURL string
	if n.config.NeedsDemo() {
		var err error
		if n.demo, err = openDemo(n.log); err != nil {
			return err
		}
		demoURL = "http://" + n.demo.addr()
	}
	settings, err := n.config.GatewayConfig(demoURL)
	if err != nil {
		return err
	}
	faults := n.faultLogger("http")
	limit, err := httplimit.New(httplimit.Config{
		Engine: n.engine, Identifier: n.identity, Fields: n.config.ResponseFields(),
		OnError: func(_ *http.Request, err error) { faults(err) },
	})
	if err != nil {
		return err
	}
	n.descriptors.LimitGateway(&settings)
	settings.Limit, settings.Identity, settings.Logger = limit, n.identity, n.componentLogger("gateway")
	settings.Observe = n.metrics.ObserveRequest
	if settings.AccessLog != nil && n.options.LogLines != nil {
		settings.AccessLog.Batch = n.options.LogLines.Batch
	}
	settings.Tracer = n.tracer
	if n.gateway, err = gateway.New(settings); err != nil {
		return err
	}
	if err := n.gateway.Listen(); err != nil {
		return err
	}
	n.openDemoTraffic()
	return nil
}

// componentLogger returns the logger of a component, one of telemetry.Components.
func (n *Node) componentLogger(component string) *slog.Logger {
	return n.log.With(telemetry.ComponentKey, component)
}

// faultLogger returns a function that counts errors of a part of the node, and logs at most one per second.
func (n *Node) faultLogger(part string) func(error) {
	var lastLog atomic.Int64 // time of the last log line in ms since the start, at least 1; 0 if there is none
	return func(err error) {
		n.metrics.Fault(part)
		now, lastLogged := time.Since(n.started).Milliseconds(), lastLog.Load()
		if (lastLogged == 0 || now-lastLogged >= 1000) && lastLog.CompareAndSwap(lastLogged, max(1, now)) {
			n.log.Warn("fault", "part", part, "err", err.Error(), "more", "headgate_faults_total counts all faults")
		}
	}
}

// close closes everything that Open opened.
func (n *Node) close() error {
	var errs []error
	if n.gateway != nil {
		_ = n.gateway.Shutdown(context.Background()) // ignored: if Serve was called, it has returned the gateway's error
	}
	n.closeDecisionService()
	for _, s := range []*server{n.demo, n.admin} {
		if s != nil {
			s.close()
		}
	}
	if n.jwtVerifier != nil {
		n.jwtVerifier.Close()
	}
	if n.followedRules != nil && n.followedRules.follower != nil {
		errs = append(errs, n.followedRules.follower.Close())
	}
	errs = append(errs, n.rulesService.close())
	if n.logins != nil {
		errs = append(errs, n.logins.Close())
	}
	if n.fleet != nil {
		n.fleet.Close()
	}
	if n.stores != nil {
		errs = append(errs, n.stores.Close())
	}
	n.closeTraces()
	return errors.Join(errs...)
}
