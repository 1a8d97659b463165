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

// A question is what check asks.
type question struct {
	set     []string // attribute=value
	terms   engine.Terms
	repeat  int
	explain bool
	out     format
}

func (p *program) checkCommand() *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "check",
		Short: "Decide one request from the shell",
		Long: `Decide one request from the shell, by the rules of a file.

It counts in memory, beginning with nothing, or with --store in Redis, where it takes from what the gateways of the same store
count. With --explain it takes nothing, and tells what every rule that matches would say.

Attributes: ip, user, api_key, method, host, path, header.<name>, cookie.<name>, query.<name>, jwt.<claim>, region, namespace.

The exit code is 0 if the request passes (the last one, if it is repeated), 3 if it is denied, 1 if something is wrong.`,
		Example: `  # one decision
  headgate check --rules rules.yaml --set user=alice --set path=/search

  # when does alice meet her limit?
  headgate check --rules rules.yaml --set user=alice --set path=/search --repeat 25

  # which rules match, and why?
  headgate check --rules rules.yaml --set host=api.example.com --set path=/v1/orders --explain

  # in a script, against what the gateways count
  headgate check --rules rules.yaml --store redis://cache:6379 --set user=alice --output json`,
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	given := settingFlags(flags, []string{"rules", "store", "key-secret-file", "namespace", "region"})
	flags.StringArrayVar(&q.set, "set", nil, "an `ATTRIBUTE=VALUE` of the request; give it as often as needed")
	flags.StringVar(&q.terms.Rule, "rule", "", "ask the rule of this `ID` alone, without its when")
	flags.Int64Var(&q.terms.Cost, "cost", 0, "take `N` units from each limit, whatever the rules say; places are taken as they say")
	flags.IntVar(&q.repeat, "repeat", 1, "decide it `N` times in a row")
	flags.BoolVar(&q.explain, "explain", false, "take nothing, and tell what every rule would say")
	formatFlag(c, &q.out)
	c.RunE = func(c *cobra.Command, _ []string) error {
		q.terms.HasCost = flags.Changed("cost")
		return p.check(c.Context(), given(), &q)
	}
	return c
}

func (q *question) validate() error {
	switch {
	case q.repeat < 1 || q.repeat > maxRepeat:
		return fmt.Errorf("--repeat %d: want 1 to %d", q.repeat, maxRepeat)
	case q.terms.HasCost && (q.terms.Cost < 1 || q.terms.Cost > headgate.MaxCount):
		return fmt.Errorf("--cost %d: want 1 to %d", q.terms.Cost, int64(headgate.MaxCount))
	case q.explain && q.terms.Rule != "":
		return errors.New("--explain tells of all rules: leave out --rule")
	}
	return nil
}

func (p *program) check(ctx context.Context, flags map[string]string, q *question) error {
	if err := q.validate(); err != nil {
		return err
	}
	c, _, err := config.Load(config.Given{Flags: flags, Environ: p.environ})
	if err != nil {
		return err
	}
	if c.Rules == "" {
		return errors.New("no rules to decide by: use --rules FILE")
	}
	values, err := q.attributes()
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(p.stderr, telemetry.LogText, "error")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	d, err := node.OpenDecider(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it is over anyway
	who, err := d.Read(values)
	if err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	if q.explain {
		return p.explain(ctx, d.Engine, who, q)
	}
	return p.decide(ctx, d.Engine, who, q)
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
	Remaining    int64  `json:"remaining"`
	RetryAfterMs int64  `json:"retryAfterMs"`
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
		d.Limits = append(d.Limits, decidedLimit{
			Rule: a.Rule.ID, Name: a.Name, Limit: a.Limit.String(), Allowed: a.Decision.Allowed, Asked: a.Decision.Limit != 0,
			Shadow: a.Shadow, Remaining: a.Decision.Remaining, RetryAfterMs: millis(a.Decision.RetryAfter),
		})
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
