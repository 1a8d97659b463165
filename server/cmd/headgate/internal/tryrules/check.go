package tryrules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/decision"
	"github.com/headgate/headgate/server/cmd/headgate/internal/node"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry"
)

const (
	maxRepeat    = 100_000
	checkTimeout = 30 * time.Second
)

// requestFlags are the flags of check and explain, which describe a request.
type requestFlags struct {
	pairs   []string // attribute=value
	options engine.DecideOptions
	repeat  int
	out     output.Format

	server   cli.ServerFlags
	settings func() map[string]string
}

const attributesHelp = `

Attributes: ip, user, api_key, method, host, path, header.<name>, cookie.<name>, query.<name>, jwt.<claim>, region,
namespace.`

// add adds the flags to a command.
func (q *requestFlags) add(p *program, c *cobra.Command) {
	p.AddServerFlags(c, &q.server)
	flags := c.Flags()
	q.settings = cli.AddSettingFlags(flags, []string{"rules", "store", "key-secret-file", "region"})
	flags.StringArrayVar(&q.pairs, "set", nil, "an `ATTRIBUTE=VALUE` of the request; can be repeated")
	flags.StringVar(&q.options.Rule, "rule", "", "apply only the rule with this `ID`, and ignore its when")
	flags.Int64Var(&q.options.Cost, "cost", 0,
		"consume `N` units of each limit instead of the rules' cost; concurrency limits keep theirs")
	output.AddFlag(c, &q.out)
}

func (p *program) checkCommand() *cobra.Command {
	q := &requestFlags{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Decide a request from the shell",
		Long: `Decide a request from the shell, with the rules of a file or of a rules service.

With --rules FILE this command decides the request. Counters are in memory and start empty, or with --store in Redis,
where the request consumes units of the same counters as requests at the gateways with that store.

Without --rules, the command asks the rules service what it would decide now. Nothing is consumed.` + attributesHelp + `

The exit code is 0 if the request passes (with --repeat: the last one), 3 if it is denied, and 1 on an error.`,
		Example: `  # one decision
  headgate check --rules rules.yaml --set user=alice --set path=/search

  # after how many requests does alice reach the limit?
  headgate check --rules rules.yaml --set user=alice --set path=/search --repeat 25

  # in a script, with the counters of the gateways
  headgate check --rules rules.yaml --store redis://cache:6379 --set user=alice --output json

  # would the request pass now, with the rules in force?
  headgate check --set user=alice --set path=/search`,
		Args: cobra.NoArgs,
	}
	q.add(p, c)
	c.Flags().IntVar(&q.repeat, "repeat", 1, "decide the request `N` times in a row")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.decideRequest(c, q, p.decide,
			func(x *decision.Explanation) error { return p.showDecisions(q, []decision.Decision{x.Verdict}) })
	}
	return c
}

func (q *requestFlags) validate() error {
	switch {
	case q.repeat < 1 || q.repeat > maxRepeat:
		return fmt.Errorf("--repeat %d: want 1 to %d", q.repeat, maxRepeat)
	case q.options.HasCost && (q.options.Cost < 1 || q.options.Cost > headgate.MaxCount):
		return fmt.Errorf("--cost %d: want 1 to %d", q.options.Cost, int64(headgate.MaxCount))
	}
	return nil
}

// decideRequest decides the request that the flags describe. If there is a rules file, it calls local with an engine.
// Otherwise it asks the rules service and calls show with the response.
func (p *program) decideRequest(
	cmd *cobra.Command, q *requestFlags,
	local func(context.Context, *engine.Engine, rules.Subject, *requestFlags) error,
	show func(*decision.Explanation) error,
) error {
	q.options.HasCost = cmd.Flags().Changed("cost")
	if err := q.validate(); err != nil {
		return err
	}
	flags := q.settings()
	if q.server.Namespace != "" {
		flags["namespace"] = q.server.Namespace
	}
	c, _, err := config.Load(config.Inputs{Flags: flags, Environ: p.Environ})
	if err != nil {
		return err
	}
	values, err := q.values()
	if err != nil {
		return err
	}
	if c.Rules == "" {
		return p.explainRemotely(cmd, q, flags, values, show)
	}
	log, err := telemetry.NewLogger(p.Stderr, telemetry.LogText, "error")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
	defer cancel()
	d, err := node.OpenDecider(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // after the decision, an error does not matter
	subject, err := d.Read(values)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	return local(ctx, d.Engine, subject, q)
}

// explainRemotely asks the rules service for a decision and calls show with it.
func (p *program) explainRemotely(
	cmd *cobra.Command, q *requestFlags, flags map[string]string, values identity.Values,
	show func(*decision.Explanation) error,
) error {
	switch {
	case q.repeat > 1:
		return errors.New("--repeat: the rules service consumes nothing, so every decision would be the same: " +
			"want --rules FILE with it")
	case flags["store"] != "":
		return errors.New("--store: the rules service knows the store of its nodes: want --rules FILE with it")
	}
	body := map[string]any{"attributes": values.Attributes}
	if q.options.Rule != "" {
		body["rule"] = q.options.Rule
	}
	if q.options.HasCost {
		body["cost"] = q.options.Cost
	}
	return p.WithClient(&q.server, func(ctx context.Context, client *remote.Client, _ []string) error {
		var response decision.Response
		if err := client.Do(ctx, "POST", "/v1/explain", nil, body, &response); err != nil {
			return err
		}
		err := show(response.Explanation())
		if response.Error != "" {
			return fmt.Errorf("some counters are unknown: %s", response.Error)
		}
		return err
	})(cmd, nil)
}

// values returns the attributes of --set.
func (q *requestFlags) values() (identity.Values, error) {
	v := identity.Values{Attributes: make(map[string]string, len(q.pairs))}
	for _, pair := range q.pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return v, fmt.Errorf("--set %s: want ATTRIBUTE=VALUE, such as user=alice", rules.Quote(pair))
		}
		if _, duplicate := v.Attributes[name]; duplicate {
			return v, fmt.Errorf("--set %s: want each attribute once", name)
		}
		v.Attributes[name] = value
	}
	return v, nil
}

func (p *program) decide(ctx context.Context, e *engine.Engine, subject rules.Subject, q *requestFlags) error {
	results := make([]decision.Decision, 0, min(q.repeat, 1000))
	var open []*engine.Verdict // to settle at the end, as if all requests ran at the same time
	v := new(engine.Verdict)
	for range q.repeat {
		err := e.DecideWith(ctx, subject, q.options, v)
		if errors.Is(err, engine.ErrNoRule) {
			return fmt.Errorf("--rule %s: no such rule", q.options.Rule)
		} else if err != nil {
			return err
		}
		results = append(results, decision.New(v))
		if v.Action.Passes() && v.NeedsSettle() {
			open = append(open, v)
			v = new(engine.Verdict)
		}
	}
	for _, v := range open {
		if err := v.Settle(ctx, func(string) string { return "" }); err != nil {
			return err
		}
	}
	return p.showDecisions(q, results)
}

// showDecisions prints decisions. It returns an ExitError if the last one is a denial.
func (p *program) showDecisions(q *requestFlags, results []decision.Decision) error {
	var value any = results
	if q.repeat == 1 {
		value = results[0]
	}
	header, rows := decision.Table(results)
	if err := p.Show(q.out, value, header, rows); err != nil {
		return err
	}
	if !results[len(results)-1].Passed {
		return cli.ExitError(cli.ExitDenied)
	}
	return nil
}
