package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/node"
	"github.com/headgate/headgate/server/internal/terminal"
	"github.com/headgate/headgate/server/telemetry"
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a gateway, a decision service and a rules service",
		Long: `Run a gateway, a decision service and a rules service.

Without options, the gateway listens on port 8080 in front of a built-in service, counts in memory, and has demo
rules. Only this host can reach the decision service: HTTP with JSON and forward-auth on port 8081, gRPC and Envoy on
8082, Redis clients on 8083. The address "off" turns a listener off. Set --api-token-file before other hosts can reach
these listeners.

The rules are in a database. The rules service on --admin-addr changes them; its first start prints a token. With
--rules the rules come from a file instead, and with --control from a remote rules service; see docs/rules-service.md.

Every flag is also an environment variable and a field of the configuration file: --gateway-addr is
HEADGATE_GATEWAY_ADDR and gateway_addr. Flags take precedence over variables, and variables over the file. The file
has more settings than there are flags: TLS, routes to several upstreams, health checks, identification of clients,
response headers; see docs/config.md.

Headgate watches the rules file. If the file becomes invalid, the current rules stay in effect, and the log, /readyz and
the metrics show the error. After SIGHUP, Headgate reads the file again at once. After SIGTERM, it waits for current
requests to finish and exits with 0.`,
		Example: `  # try it
  headgate serve

  # in front of your service
  headgate serve --upstream http://localhost:9000 --rules rules.yaml

  # limits shared by several gateways, behind a load balancer
  HEADGATE_STORE=redis://cache:6379 headgate serve --config headgate.yaml --trusted-proxies 10.0.0.0/8

  # a node of a remote rules service
  headgate serve --control https://rules.example.com:8084 --token-file node.txt --upstream http://localhost:9000

  # only the decision service, for services and proxies on other hosts
  headgate serve --gateway-addr off --api-addr :8081 --grpc-addr :8082 --api-token-file token.txt --rules rules.yaml`,
		Args: cobra.NoArgs,
	}
	changed := cli.AddSettingFlags(c.Flags(), nil)
	c.RunE = func(c *cobra.Command, _ []string) error { return p.serve(c.Context(), changed()) }
	return c
}

func (p *program) serve(ctx context.Context, flags map[string]string) error {
	c, warnings, err := config.Load(config.Inputs{Flags: flags, Environ: p.Environ})
	if err != nil {
		return err
	}
	format := c.LogFormat
	if format == telemetry.LogAuto {
		format = telemetry.LogJSON
		if terminal.IsCharDevice(p.Stderr) {
			format = telemetry.LogText
		}
	}
	lines := telemetry.NewLineWriter(p.Stderr)
	log, err := telemetry.NewLogger(lines, format, c.LogLevel)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w)
	}
	ctx, stop := stopOnSignals(ctx, log)
	defer stop()
	o := node.Options{
		Version: currentBuild().Version, Logger: log, LogLines: lines, Secrets: p.Stdout,
		Docs: buildDocs,
	}
	if c.NeedsDemo() || terminal.IsCharDevice(p.Stdout) {
		o.Banner = p.Stdout
	}
	n, err := node.Open(ctx, c, o)
	if err != nil {
		return err
	}
	defer onHangup(n.Reload)()
	return n.Run(ctx)
}

// onHangup calls do after each SIGHUP, until stop is called.
func onHangup(do func()) (stop func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-hup:
				do()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		signal.Stop(hup)
	}
}

// sameSignalWindow is the time after a signal in which further signals are ignored. timeout(1) and some process
// supervisors send a signal twice, to the process and to its group.
const sameSignalWindow = time.Second

// stopOnSignals returns a context that ends with the first SIGTERM or SIGINT. A signal more than sameSignalWindow later
// ends the program at once.
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
				case time.Since(first) > sameSignalWindow:
					log.Error("second signal, exiting without draining", "signal", s.String())
					os.Exit(cli.ExitFailure)
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		// Do not call signal.Stop: a repeated signal would then kill the program shortly before it exits with 0.
		close(done)
		cancel()
	}
}
