package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/node"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/telemetry"
)

const (
	maxRepeat    = 100_000
	checkTimeout = 30 * time.Second
)

// A question is the request that check and explain are asked about.
type question struct {
	set    []string // attribute=value
	terms  engine.Terms
	repeat int
	out    format

	server   serverFlags
	settings func() map[string]string
}

// attributesLong lists the attributes for the help.
const attributesLong = `

Attributes: ip, user, api_key, method, host, path, header.<name>, cookie.<name>, query.<name>, jwt.<claim>, region, namespace.`

// add adds the flags of a question to a command.
func (q *question) add(p *program, c *cobra.Command) {
	p.addServer(c, &q.server)
	flags := c.Flags()
	q.settings = settingFlags(flags, []string{"rules", "store", "key-secret-file", "region"})
	flags.StringArrayVar(&q.set, "set", nil, "an `ATTRIBUTE=VALUE` of the request; give it as often as needed")
	flags.StringVar(&q.terms.Rule, "rule", "", "ask the rule of this `ID` alone, without its when")
	flags.Int64Var(&q.terms.Cost, "cost", 0, "take `N` units from each limit, whatever the rules say; places are taken as they say")
	formatFlag(c, &q.out)
}

func (p *program) checkCommand() *cobra.Command {
	q := &question{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Decide one request from the shell",
		Long: `Decide one request from the shell, by the rules of a file or by those of a rules service.

With --rules FILE the request is decided here. Counters are in memory and start empty, or with --store in Redis, where the request takes
from the same counters as the gateways of that store.

Without --rules the rules service is asked what its rules and counters would decide now. Nothing is taken.` + attributesLong + `

The exit code is 0 if the request passes (the last one, if it is repeated), 3 if it is denied, 1 if something is wrong.`,
		Example: `  # one decision
  headgate check --rules rules.yaml --set user=alice --set path=/search

  # when does alice meet her limit?
  headgate check --rules rules.yaml --set user=alice --set path=/search --repeat 25

  # in a script, against the counters of the gateways
  headgate check --rules rules.yaml --store redis://cache:6379 --set user=alice --output json

  # would it pass now, by the rules in force?
  headgate check --set user=alice --set path=/search`,
		Args: cobra.NoArgs,
	}
	q.add(p, c)
	c.Flags().IntVar(&q.repeat, "repeat", 1, "decide it `N` times in a row")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.ask(c, q, p.decide, func(x *explained) error { return p.showDecided(q, []decided{x.Verdict}) })
	}
	return c
}

func (q *question) validate() error {
	switch {
	case q.repeat < 1 || q.repeat > maxRepeat:
		return fmt.Errorf("--repeat %d: want 1 to %d", q.repeat, maxRepeat)
	case q.terms.HasCost && (q.terms.Cost < 1 || q.terms.Cost > headgate.MaxCount):
		return fmt.Errorf("--cost %d: want 1 to %d", q.terms.Cost, int64(headgate.MaxCount))
	}
	return nil
}

// ask asks a question: by a rules file with here, or the rules service, whose response there is called with.
func (p *program) ask(
	cmd *cobra.Command, q *question, here func(context.Context, *engine.Engine, rules.Subject, *question) error, there func(*explained) error,
) error {
	q.terms.HasCost = cmd.Flags().Changed("cost")
	if err := q.validate(); err != nil {
		return err
	}
	flags := q.settings()
	if q.server.Namespace != "" {
		flags["namespace"] = q.server.Namespace
	}
	c, _, err := config.Load(config.Given{Flags: flags, Environ: p.environ})
	if err != nil {
		return err
	}
	values, err := q.attributes()
	if err != nil {
		return err
	}
	if c.Rules == "" {
		return p.askService(cmd, q, flags, values, there)
	}
	log, err := telemetry.NewLogger(p.stderr, telemetry.LogText, "error")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
	defer cancel()
	d, err := node.OpenDecider(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing is left to be done with it
	who, err := d.Read(values)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	return here(ctx, d.Engine, who, q)
}

// attributes returns what --set says.
func (q *question) attributes() (identity.Values, error) {
	v := identity.Values{Attributes: make(map[string]string, len(q.set))}
	for _, pair := range q.set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return v, fmt.Errorf("--set %s: want ATTRIBUTE=VALUE, such as user=alice", rules.Quote(pair))
		}
		if _, twice := v.Attributes[name]; twice {
			return v, fmt.Errorf("--set %s: want each attribute once", name)
		}
		v.Attributes[name] = value
	}
	return v, nil
}

// A decided is one decision.
type decided struct {
	Verdict      string         `json:"verdict"`
	Passed       bool           `json:"passed"`
	Reason       string         `json:"reason,omitempty"`
	Rule         string         `json:"ruleId,omitempty"`
	Status       int            `json:"status,omitempty"`
	Limit        int64          `json:"limit"`
	Remaining    int64          `json:"remainingRequests"`
	RetryAfterMs int64          `json:"retryAfterMs"` // -1: never
	ResetMs      int64          `json:"resetMs"`
	DelayMs      int64          `json:"delayMs"`
	Degraded     bool           `json:"degraded"`
	Limits       []decidedLimit `json:"limits"`

	limitText         string
	limitAllowed      bool
	retryAfter, delay time.Duration
	reset             time.Duration
}

// A decidedLimit is what one limit said.
type decidedLimit struct {
	Rule         string `json:"ruleId"`
	Name         string `json:"name"`
	Limit        string `json:"limit"`
	Allowed      bool   `json:"allowed"`
	Asked        bool   `json:"asked"`
	Shadow       bool   `json:"shadow,omitempty"`
	Remaining    *int64 `json:"remaining"` // null if it is not known
	RetryAfterMs int64  `json:"retryAfterMs"`
}

// remaining returns how much is left, for a table.
func (l *decidedLimit) remaining() string {
	if l.Remaining == nil {
		return "unknown"
	}
	return strconv.FormatInt(*l.Remaining, 10)
}

func newDecidedLimit(a *engine.Applied) decidedLimit {
	made := decidedLimit{
		Rule: a.Rule.ID, Name: a.Name, Limit: a.Limit.String(), Allowed: a.Decision.Allowed, Asked: a.Decision.Limit != 0,
		Shadow: a.Shadow, RetryAfterMs: millis(a.Decision.RetryAfter),
	}
	if !a.Decision.Degraded {
		made.Remaining = &a.Decision.Remaining
	}
	return made
}

func (p *program) decide(ctx context.Context, e *engine.Engine, who rules.Subject, q *question) error {
	results := make([]decided, 0, min(q.repeat, 1000))
	var open []*engine.Verdict // those that hold places until the end, as requests under way do
	v := new(engine.Verdict)
	for range q.repeat {
		err := e.DecideTerms(ctx, who, q.terms, v)
		if errors.Is(err, engine.ErrNoRule) {
			return fmt.Errorf("--rule %s: there is no such rule in force", q.terms.Rule)
		} else if err != nil {
			return err
		}
		results = append(results, newDecided(v))
		if v.Action.Passes() && v.Settles() {
			open = append(open, v)
			v = new(engine.Verdict)
		}
	}
	for _, v := range open {
		if err := v.Settle(ctx, func(string) string { return "" }); err != nil {
			return err
		}
	}
	return p.showDecided(q, results)
}

// showDecided shows decisions. The last one says the exit code.
func (p *program) showDecided(q *question, results []decided) error {
	if q.out != formatTable {
		var value any = results
		if q.repeat == 1 {
			value = results[0]
		}
		if err := p.show(q.out, value, nil, nil); err != nil {
			return err
		}
	} else if err := p.sayDecided(results); err != nil {
		return err
	}
	if !results[len(results)-1].Passed {
		return exitCodeError(exitDenied)
	}
	return nil
}

func newDecided(v *engine.Verdict) decided {
	d := decided{
		Verdict: v.Action.String(), Passed: v.Action.Passes(), Status: v.Status, Degraded: v.Degraded,
		Limit: v.Decision.Limit, Remaining: v.Decision.Remaining, RetryAfterMs: millis(v.RetryAfter),
		ResetMs: millis(v.Decision.ResetAfter), DelayMs: millis(v.Delay), Limits: []decidedLimit{},
		retryAfter: v.RetryAfter, delay: v.Delay, reset: v.Decision.ResetAfter,
	}
	if v.Reason != engine.None {
		d.Reason = v.Reason.String()
	}
	if v.Rule != nil {
		d.Rule = v.Rule.ID
	}
	for _, a := range v.Limits() {
		d.Limits = append(d.Limits, newDecidedLimit(&a))
		if a.Rule == v.Rule && a.Decision.Remaining == v.Decision.Remaining && d.limitText == "" && !a.Shadow {
			d.limitText = a.Limit.String()
		}
	}
	return d
}

// millis returns whole milliseconds, rounded up, -1 for never.
func millis(d time.Duration) int64 {
	if d == headgate.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func (p *program) sayDecided(results []decided) error {
	rows := make([][]string, 0, len(results))
	for i, d := range results {
		verdict, remaining := d.Verdict, "-"
		if d.Reason != "" {
			verdict += " (" + d.Reason + ")"
		}
		if d.delay > 0 {
			verdict += " " + span(d.delay)
		}
		if d.Degraded {
			verdict += " degraded"
		}
		if d.Limit > 0 {
			remaining = strconv.FormatInt(d.Remaining, 10)
		}
		rows = append(rows, []string{
			strconv.Itoa(i + 1), verdict, dash(d.Rule), dash(d.limitText), remaining, span(d.retryAfter), span(d.reset),
		})
	}
	return p.table([]string{"#", "VERDICT", "RULE", "LIMIT", "REMAINING", "RETRY AFTER", "FULL AFTER"}, rows)
}

func span(d time.Duration) string {
	switch {
	case d == headgate.Never:
		return "never"
	case d <= 0:
		return "-"
	case d > time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(100 * time.Microsecond).String()
	}
}
