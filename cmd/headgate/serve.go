package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/node"
	"github.com/headgate/headgate/telemetry"
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a gateway and a decision service that limit what clients take",
		Long: `Run a gateway and a decision service that limit what clients take.

Without any file the gateway listens on port 8080 before a built-in service, counts in memory, and has rules to try. The
decision service answers on this host alone: HTTP with JSON and forward-auth on port 8081, gRPC and Envoys on 8082, clients of
Redis on 8083. An address of "off" turns a listener off. Give --api-token-file before you let others reach them.

The rules are in a database, which the rules service on --admin-addr changes; the first start prints a token for it. With
--rules they are those of a file instead, and with --control those of a rules service elsewhere; see docs/rules-service.md.

Every flag can be given as a variable as well, and in the configuration file: --gateway-addr is HEADGATE_GATEWAY_ADDR and
gateway_addr. A flag counts before a variable, a variable before the file. The file says more than flags can: listeners with
TLS, routes to several upstreams with health checks, who is asking, what clients are told; see docs/config.md.

The rules file is watched. If what is written there is wrong, the rules in force stay, and the log, /readyz and the metrics
say so. SIGHUP reads it again at once. SIGTERM lets requests finish and exits with 0.`,
		Example: `  # see it
  headgate serve

  # before a service of yours
  headgate serve --upstream http://localhost:9000 --rules rules.yaml

  # limits shared by several gateways, behind a load balancer
  HEADGATE_STORE=redis://cache:6379 headgate serve --config headgate.yaml --trusted-proxies 10.0.0.0/8

  # a node of a rules service
  headgate serve --control https://rules.example.com:8084 --token-file node.txt --upstream http://localhost:9000

  # decisions alone, for services and proxies on other hosts
  headgate serve --gateway-addr off --api-addr :8081 --grpc-addr :8082 --api-token-file token.txt --rules rules.yaml`,
		Args: cobra.NoArgs,
	}
	given := settingFlags(c.Flags(), nil)
	c.RunE = func(c *cobra.Command, _ []string) error { return p.serve(c.Context(), given()) }
	return c
}

// settingFlags adds the flags of settings to a command, all or those of some names, and returns what gathers those that
// were given.
func settingFlags(flags *pflag.FlagSet, only []string) (given func() map[string]string) {
	values := make(map[string]*textFlag)
	add := func(name, value, arg, usage string) {
		values[name] = &textFlag{text: value, arg: arg}
		flags.Var(values[name], name, usage)
	}
	add("config", "", "FILE", "settings, YAML or JSON; those given as flags and variables count before it")
	for _, s := range config.Settings() {
		if only == nil || slices.Contains(only, s.Name) {
			add(s.Name, s.Default(), s.Arg, s.Usage)
		}
	}
	return func() map[string]string {
		list := make(map[string]string)
		for name, value := range values {
			if flags.Changed(name) {
				list[name] = value.text
			}
		}
		return list
	}
}

// A textFlag is a flag whose value is a text. In help it is called arg.
type textFlag struct{ text, arg string }

func (f *textFlag) String() string { return f.text }
func (f *textFlag) Type() string   { return f.arg }

func (f *textFlag) Set(text string) error {
	f.text = text
	return nil
}

func (p *program) serve(ctx context.Context, flags map[string]string) error {
	c, warnings, err := config.Load(config.Given{Flags: flags, Environ: p.environ})
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(p.stderr, c.LogFormat, c.LogLevel)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	ctx, stop := stopOnSignals(ctx, log)
	defer stop()
	o := node.Options{Version: thisBuild().Version, Logger: log, Secrets: p.stdout}
	if c.NeedsDemo() || isTerminal(p.stdout) {
		o.Banner = p.stdout
	}
	n, err := node.Open(ctx, c, o)
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-hup:
				n.Reload()
			case <-done:
				return
			}
		}
	}()
	return n.Run(ctx)
}

// sameSignal is how long after a signal another one is the same: timeout(1) and some that watch over processes send it to the
// process and to its group.
const sameSignal = time.Second

// stopOnSignals returns a context that ends with the first SIGTERM or SIGINT. A later one ends the program at once.
func stopOnSignals(ctx context.Context, log *slog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					log.Info("stopping", "signal", s.String())
					cancel()
				case time.Since(first) > sameSignal:
					log.Error("stopped at once", "signal", s.String())
					os.Exit(exitError)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		// Signals go on being taken, for nothing: without, the same one once more would end the program with an error just before
		// it ends without.
		close(done)
		cancel()
	}
}

// isTerminal reports whether people read what is written. (It says so of /dev/null, too, which does not matter.)
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
