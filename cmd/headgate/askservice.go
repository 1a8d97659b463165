package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/identity"
)

// An explanation is the response of POST /v1/explain.
type explanation struct {
	Action       string            `json:"action"`
	Reason       string            `json:"reason"`
	Status       int               `json:"status"`
	Rule         string            `json:"rule"`
	RetryAfterMS int64             `json:"retry_after_ms"`
	DelayMS      int64             `json:"delay_ms"`
	Degraded     bool              `json:"degraded"`
	Rules        []explanationRule `json:"rules"`
	Error        string            `json:"error"`
}

// An explanationRule is what one rule would decide.
type explanationRule struct {
	ID       string `json:"id"`
	Effect   string `json:"effect"`
	Denied   bool   `json:"denied"`
	Mode     string `json:"mode"`
	Shadow   bool   `json:"shadow"`
	Override *int   `json:"override"`
	Client   string `json:"client"`
	Key      []struct {
		Attribute string `json:"attribute"`
		Value     string `json:"value"`
	} `json:"key"`
	Cost   int64              `json:"cost"`
	Limits []explanationLimit `json:"limits"`
}

// An explanationLimit is what one limit would decide.
type explanationLimit struct {
	Name         string `json:"name"`
	Limit        string `json:"limit"`
	Allowed      bool   `json:"allowed"`
	Capacity     int64  `json:"capacity"`
	Remaining    *int64 `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS *int64 `json:"reset_after_ms"`
}

// askService asks the rules service a question and calls show with its response.
func (p *program) askService(
	cmd *cobra.Command, q *question, given map[string]string, values identity.Values, show func(*explained) error,
) error {
	switch {
	case q.repeat > 1:
		return errors.New("--repeat: the rules service takes nothing, so every decision would be the same: want --rules FILE with it")
	case given["store"] != "":
		return errors.New("--store: the rules service knows where its nodes count: want --rules FILE with it")
	}
	body := map[string]any{"attributes": values.Attributes}
	if q.terms.Rule != "" {
		body["rule"] = q.terms.Rule
	}
	if q.terms.HasCost {
		body["cost"] = q.terms.Cost
	}
	return p.calling(&q.server, func(ctx context.Context, at *remote.Client, _ []string) error {
		var answer explanation
		if err := at.Do(ctx, "POST", "/v1/explain", nil, body, &answer); err != nil {
			return err
		}
		err := show(answer.explained())
		if answer.Error != "" {
			return fmt.Errorf("some counters are unknown: %s", answer.Error)
		}
		return err
	})(cmd, nil)
}

// explained returns the response as a decision made here is shown.
func (e *explanation) explained() *explained {
	made := &explained{Rules: []explainedRule{}, Verdict: decided{
		Verdict: e.Action, Passed: e.Action == "allow" || e.Action == "delay", Reason: e.Reason, Rule: e.Rule, Status: e.Status,
		RetryAfterMs: e.RetryAfterMS, DelayMs: e.DelayMS, Degraded: e.Degraded, Limits: []decidedLimit{},
		retryAfter: ofMillis(e.RetryAfterMS), delay: ofMillis(e.DelayMS),
	}}
	for i := range e.Rules {
		r := &e.Rules[i]
		rule := explainedRule{
			Rule: r.ID, Effect: r.Effect, Mode: r.Mode, Shadow: r.Shadow, Denies: r.Denied, Client: r.Client, Override: r.Override,
			Cost: r.Cost, Limits: []decidedLimit{},
		}
		for _, k := range r.Key {
			rule.addKey(k.Attribute, k.Value)
		}
		for j := range r.Limits {
			l := &r.Limits[j]
			rule.Limits = append(rule.Limits, decidedLimit{
				Rule: r.ID, Name: l.Name, Limit: l.Limit, Allowed: l.Allowed, Asked: l.Remaining != nil, Shadow: r.Shadow,
				Remaining: l.Remaining, RetryAfterMs: l.RetryAfterMS,
			})
			if r.ID == e.Rule {
				made.Verdict.tighten(l)
			}
		}
		made.Verdict.Limits = append(made.Verdict.Limits, rule.Limits...)
		made.Rules = append(made.Rules, rule)
	}
	return made
}

// tighten shows a limit of the rule that decides, if it is tighter than the one shown: it denies for longer, or less is left.
func (d *decided) tighten(l *explanationLimit) {
	if l.Remaining == nil || d.limitText != "" && (d.limitAllowed != l.Allowed && l.Allowed ||
		d.limitAllowed == l.Allowed && *l.Remaining >= d.Remaining) {
		return
	}
	d.Limit, d.Remaining, d.limitText, d.limitAllowed = l.Capacity, *l.Remaining, l.Limit, l.Allowed
	if l.ResetAfterMS != nil {
		d.ResetMs, d.reset = *l.ResetAfterMS, ofMillis(*l.ResetAfterMS)
	}
}

// ofMillis is the inverse of millis.
func ofMillis(ms int64) time.Duration {
	if ms < 0 {
		return headgate.Never
	}
	return time.Duration(ms) * time.Millisecond
}
