package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
	"github.com/headgate/headgate/internal/watch"
	"github.com/headgate/headgate/service"
	"github.com/headgate/headgate/telemetry"
	"github.com/headgate/headgate/ui"
)

// Options are what a node has besides its configuration.
type Options struct {
	// Version is that of the program.
	Version string
	// Logger hears what operators should know.
	Logger *slog.Logger
	// Banner, if any, gets a few lines for people when the node has begun to listen.
	Banner io.Writer
	// Secrets, if any, gets the token that a new database is given, once.
	Secrets io.Writer
}

// A Node is a Headgate that runs. Make one with Open and run it with Run, once.
type Node struct {
	config  *config.Config
	options Options
	log     *slog.Logger
	started time.Time
	state   atomic.Value // telemetry.State

	metrics     *telemetry.Metrics
	logins      *service.Logins // of all listeners that take tokens
	descriptors descriptors
	stores      *stores
	company     *company
	tokens      *jwt.Verifier // nil if there are none
	identity    *identity.Identifier
	id          string
	rules       *keeper   // of a file; nil if they are those of a rules service
	followed    *followed // nil if they are those of a file
	control     *rulesService
	engine      *engine.Engine
	gateway     *gateway.Gateway // nil if it is off
	service     decisionService
	admin       *server // nil if it is off
	demo        *server // nil if there is somebody else to send requests to

	hup chan struct{}
}

// errNothing is for a node that would do nothing.
var errNothing = errors.New("all addresses are off: there is nothing to serve")

// Open makes a node: it opens its stores, reads its rules and listens, but serves nobody yet. If it fails nothing is left
// open.
func Open(ctx context.Context, c *config.Config, o Options) (*Node, error) {
	n := &Node{
		config: c, options: o, log: o.Logger, started: time.Now().UTC(), id: nodeID(c), control: &rulesService{}, hup: make(chan struct{}, 1),
	}
	n.state.Store(telemetry.Starting)
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *Node) open(ctx context.Context) error {
	c := n.config
	if n.config.GatewayOff() && c.ServiceOff() && c.AdminAddr == config.Off {
		return errNothing
	}
	n.metrics = telemetry.New(n.options.Version)
	var err error
	if n.logins, err = service.NewLogins(service.LoginOptions{Logger: n.log}); err != nil {
		return err
	}
	secret, err := c.Secret()
	if err != nil {
		return err
	}
	if err := n.openIdentity(ctx, secret); err != nil {
		return err
	}
	if err := n.divideDescriptors(); err != nil { // it validates the gateway's settings, before the database is opened
		return err
	}
	if n.stores, err = openStores(ctx, c, secret, true, n.metrics, n.log); err != nil {
		return err
	}
	if n.company, err = openCompany(ctx, c, n.stores, n.id, secret, n.log); err != nil {
		return err
	}
	if err := n.openEngine(ctx, secret); err != nil {
		return err
	}
	if !n.config.GatewayOff() {
		if err := n.openGateway(); err != nil {
			return err
		}
	}
	if err := n.openService(); err != nil {
		return err
	}
	if c.AdminAddr != config.Off {
		if err := n.openAdmin(); err != nil {
			return err
		}
	}
	return n.measure()
}

func (n *Node) openAdmin() error {
	c := n.config
	handler, err := ui.Handler(n.control.handler(telemetry.Admin{Metrics: n.metrics, Status: n.Status}.Handler()))
	if err != nil {
		return err
	}
	certificates, every, err := c.AdminCertificates()
	if err != nil {
		return err
	}
	if n.admin, err = listen("admin", c.AdminAddr, adminHosts(c).guard(handler), n.log); err != nil {
		return fmt.Errorf("%s: %w", c.Where("admin-addr"), err)
	}
	n.admin.bound(n.connLimits(c.Admin.MaxConnsPerAddress).New("admin", c.AdminMaxConns(), "", n.log))
	if certificates != nil {
		n.admin.secure(certificates, every, c.AdminMinVersion())
	} else if n.config.Mode() != config.FromControl && !onLoopback(n.admin.listener.Addr()) {
		n.log.Warn("others can reach the rules service, and tokens are sent to it as they are; give it certificates in admin.tls",
			"address", n.admin.addr())
	}
	return nil
}

// keysTimeout is how long a node waits at the start for the keys that verify tokens. Without them users are nobody.
const keysTimeout = 3 * time.Second

func (n *Node) openIdentity(ctx context.Context, secret []byte) error {
	settings, err := n.config.JWTConfig()
	if err != nil {
		return err
	}
	var tokens identity.TokenVerifier
	if settings != nil {
		settings.Logger = n.log
		if n.tokens, err = jwt.New(*settings); err != nil {
			return fmt.Errorf("identity.jwt: %w", err)
		}
		tokens = n.tokens
		waiting, cancel := context.WithTimeout(ctx, keysTimeout)
		defer cancel()
		if err := n.tokens.Wait(waiting); err != nil {
			n.log.Warn("no keys to verify tokens with yet; until there are, nobody is known by a token", "err", err.Error())
		}
	}
	n.identity, err = identity.New(n.config.IdentityConfig(secret, tokens))
	return err
}

func (n *Node) openEngine(ctx context.Context, secret []byte) error {
	settings := engine.Config{
		Store: n.stores.main(), Local: n.stores.memory, Shared: n.stores.shared(), Modes: n.company.modes(), Global: n.company.global(),
		Secret: secret, Observe: n.metrics.Observe, OnError: n.faults("engine"),
	}
	if n.config.Mode() == config.FromFile {
		return n.openFile(ctx, settings)
	}
	var err error
	if n.engine, err = engine.New(settings); err != nil {
		return err
	}
	n.followed = &followed{engine: n.engine, shared: n.stores.shared(), metrics: n.metrics, log: n.log}
	return n.openControl(ctx)
}

// openFile puts the rules of a file in force.
func (n *Node) openFile(ctx context.Context, settings engine.Config) error {
	n.rules = &keeper{
		path: n.config.Rules, shared: n.stores.shared(), widths: widthsOf(n.config), metrics: n.metrics, log: n.log,
	}
	set, err := n.rules.first()
	if err != nil {
		return n.aboutRules(err)
	}
	settings.Rules = set
	if n.engine, err = engine.New(settings); err != nil {
		return n.aboutRules(Locate(n.rules.source(), n.rules.data, err))
	}
	n.rules.begin(n.engine)
	if n.config.AdminAddr == config.Off {
		return nil
	}
	return n.openView(ctx)
}

// aboutRules says which setting names the rules, if the error does not name the file.
func (n *Node) aboutRules(err error) error {
	if n.config.Rules == "" {
		return err
	}
	return fmt.Errorf("%s: %w", n.config.Where("rules"), err)
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
	faults := n.faults("http")
	limit, err := httplimit.New(httplimit.Config{
		Engine: n.engine, Identifier: n.identity, Fields: n.config.Fields(),
		OnError: func(_ *http.Request, err error) { faults(err) },
	})
	if err != nil {
		return err
	}
	n.descriptors.bound(&settings)
	settings.Limit, settings.Identity, settings.Logger = limit, n.identity, n.log
	if n.gateway, err = gateway.New(settings); err != nil {
		return err
	}
	return n.gateway.Listen()
}

// measure says what is asked at each scrape.
func (n *Node) measure() error {
	sources := &telemetry.Sources{Waiting: n.engine.Waiting}
	n.stores.measure(sources)
	n.company.measure(sources)
	if n.followed != nil {
		n.followed.measure(sources)
		n.control.measure(sources)
	}
	if n.gateway != nil {
		measureGateway(n.gateway, sources)
	}
	n.service.measure(sources)
	return n.metrics.Register(sources)
}

// faults returns what tells of a part's faults: all of them are counted, and one a second is logged.
func (n *Node) faults(part string) func(error) {
	var last atomic.Int64
	return func(err error) {
		n.metrics.Fault(part)
		now, before := time.Since(n.started).Milliseconds(), last.Load()
		if (before == 0 || now-before >= 1000) && last.CompareAndSwap(before, max(1, now)) {
			n.log.Warn("fault", "part", part, "err", err.Error(), "more", "headgate_faults_total counts them all")
		}
	}
}

// Run serves until ctx ends or something fails that it cannot do without. Then it lets requests that are under way finish
// and closes everything.
func (n *Node) Run(ctx context.Context) error {
	heap := ballast()
	defer runtime.KeepAlive(heap)
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group, behind sync.WaitGroup // behind are those that the gateway and who watches over it still need
	for _, s := range []*server{n.admin, n.demo} {
		if s != nil {
			behind.Go(func() {
				if err := s.serve(); err != nil {
					stop(err)
				}
			})
		}
	}
	if n.gateway != nil {
		group.Go(func() {
			if err := n.gateway.Serve(serving); err != nil && serving.Err() == nil {
				stop(fmt.Errorf("gateway: %w", err))
			} else if err != nil {
				n.log.Warn("drained incompletely", "err", err.Error())
			}
		})
	}
	n.serveService(serving, &group, stop)
	n.serveRules(serving, &group)
	if n.rules != nil {
		group.Go(func() {
			if err := watch.File(serving, n.config.Rules, watch.Options{Logger: n.log}, n.rules.reload); err != nil {
				n.log.Error("the rules file is not watched", "err", err.Error())
			}
		})
	}
	if n.stores.redis != nil {
		group.Go(func() { n.stores.watchServers(serving) })
	}
	group.Go(func() { n.reloadOnDemand(serving) })
	group.Go(func() { watchProxies(serving, n.identity, n.log) })
	group.Go(func() { watchMemory(serving, n.stores.memory.Stats, n.log) })

	n.awaitGateway(serving)
	n.state.Store(telemetry.Ready)
	n.announce()
	<-serving.Done()
	n.state.Store(telemetry.Draining)
	n.log.Info("draining")
	n.drainService()
	group.Wait()
	stopped := n.control.stop()
	for _, s := range []*server{n.demo, n.admin} {
		if s != nil {
			s.shutdown()
		}
	}
	behind.Wait()
	err := errors.Join(stopped, n.close())
	if cause := context.Cause(serving); ctx.Err() == nil && cause != nil {
		err = errors.Join(cause, err)
	}
	if err == nil {
		n.log.Info("stopped")
	}
	return err
}

// awaitGateway returns when the gateway serves, so that nobody who was told where it listens finds it starting still.
func (n *Node) awaitGateway(ctx context.Context) {
	if n.gateway == nil {
		return
	}
	select {
	case <-n.gateway.Started():
	case <-ctx.Done():
	}
}

// serveRules follows the rules of a rules service until ctx ends.
func (n *Node) serveRules(ctx context.Context, group *sync.WaitGroup) {
	if n.admin != nil && n.admin.certificates != nil {
		group.Go(func() { n.admin.certificates.Watch(ctx, n.admin.lookEvery, n.log.With("listener", "admin")) })
	}
	if n.followed == nil {
		if n.control.api.Load() != nil {
			group.Go(func() { n.showSelf(ctx) })
		}
		return
	}
	group.Go(func() { n.followed.follower.Run(ctx) })
	if n.config.Mode() == config.FromControl {
		return
	}
	group.Go(func() {
		if n.control.late != nil && !n.reopen(ctx) {
			return
		}
		var below sync.WaitGroup
		if m := n.followed.mirror.Load(); m != nil {
			below.Go(func() { m.watch(ctx) })
		}
		n.prune(ctx)
		below.Wait()
	})
}

// Reload has the rules and certificates read again, soon.
func (n *Node) Reload() {
	select {
	case n.hup <- struct{}{}:
	default: // one is due already
	}
}

func (n *Node) reloadOnDemand(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.hup:
			if n.rules != nil {
				n.rules.reload()
			} else {
				n.followed.reload()
			}
			if n.admin != nil {
				n.admin.reload(n.log)
			}
			if n.gateway != nil {
				_ = n.gateway.Reload() // it has told the log
			}
			n.reloadService()
		}
	}
}

// close closes what Open has opened.
func (n *Node) close() error {
	var errs []error
	if n.gateway != nil {
		_ = n.gateway.Shutdown(context.Background()) // what came of it was told when it was served, and is nothing if it was not
	}
	n.closeService()
	for _, s := range []*server{n.demo, n.admin} {
		if s != nil {
			s.close()
		}
	}
	if n.tokens != nil {
		n.tokens.Close()
	}
	if n.followed != nil && n.followed.follower != nil {
		errs = append(errs, n.followed.follower.Close())
	}
	errs = append(errs, n.control.close())
	if n.logins != nil {
		errs = append(errs, n.logins.Close())
	}
	if n.company != nil {
		n.company.close()
	}
	if n.stores != nil {
		errs = append(errs, n.stores.close())
	}
	return errors.Join(errs...)
}

// Status returns how the node is.
func (n *Node) Status() telemetry.Status {
	state := n.state.Load().(telemetry.State)
	if state == telemetry.Ready && n.gateway != nil && !n.gateway.Ready() {
		state = telemetry.Starting
	}
	s := telemetry.Status{State: state, Version: n.options.Version, Started: n.started, Listeners: n.Listeners()}
	s.Store, s.Degraded = n.stores.status()
	var silent bool
	s.Fleet, silent = n.company.status()
	s.Degraded = s.Degraded || silent
	if n.rules != nil {
		s.Rules = n.rules.current()
	} else {
		s.Rules = n.followed.current()
		s.Degraded = s.Degraded || s.Rules.Follow.FromDisk || s.Rules.Follow.Away != "" || s.Rules.Follow.Disk != ""
		if s.State == telemetry.Ready && !n.followed.ready() {
			s.State = telemetry.Starting // without any rules it would let everybody pass
		}
	}
	if s.Database = n.control.database(); s.Database != nil {
		s.Degraded = s.Degraded || !s.Database.Writable
	}
	if n.tokens != nil {
		if err := n.tokens.Err(); err != nil {
			s.Identity.Error = err.Error()
		}
	}
	s.Degraded = s.Degraded || s.Rules.Error != "" || s.Identity.Error != ""
	if warning := untrustedProxies(n.identity); warning != "" {
		s.Warnings = append(s.Warnings, warning)
	}
	if n.gateway != nil {
		s.Upstreams = upstreams(n.gateway)
	}
	return s
}
