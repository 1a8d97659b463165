package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// An explained is what all rules that match would say.
type explained struct {
	Verdict decided         `json:"verdict"`
	Rules   []explainedRule `json:"rules"`
}

// An explainedRule is what one of them would say.
type explainedRule struct {
	Rule     string            `json:"ruleId"`
	Effect   string            `json:"effect"`
	Mode     string            `json:"mode"`
	Shadow   bool              `json:"shadow,omitempty"`
	Denies   bool              `json:"denies"`
	Key      map[string]string `json:"key,omitempty"`
	Client   string            `json:"client,omitempty"`
	Override *int              `json:"override,omitempty"` // its place in the rule's list, from 0 on
	Cost     int64             `json:"cost"`
	Limits   []decidedLimit    `json:"limits"`

	keyText string
}

func (p *program) explain(ctx context.Context, e *engine.Engine, who rules.Subject, q *question) error {
	x, err := e.ExplainTerms(ctx, who, q.terms)
	if err != nil {
		return err
	}
	made := explained{Verdict: newDecided(&x.Verdict), Rules: []explainedRule{}}
	for i := range x.Rules {
		made.Rules = append(made.Rules, newExplainedRule(&x.Rules[i]))
	}
	if q.out != formatTable {
		err = p.show(q.out, made, nil, nil)
	} else {
		err = p.sayExplained(&made)
	}
	if err == nil && !made.Verdict.Passed {
		return exitCodeError(exitDenied)
	}
	return err
}

func newExplainedRule(r *engine.Explained) explainedRule {
	made := explainedRule{
		Rule: r.Rule.ID, Effect: r.Effect.String(), Mode: r.Mode.String(), Shadow: r.Shadow, Denies: r.Denied || r.Effect.Denies(),
		Cost: r.Cost, Client: r.Client, Limits: []decidedLimit{},
	}
	var parts []string
	for _, k := range r.Key {
		if made.Key == nil {
			made.Key = make(map[string]string)
		}
		made.Key[k.Attribute.String()] = k.Value
		parts = append(parts, k.Attribute.String()+"="+dash(k.Value))
	}
	made.keyText = strings.Join(parts, " ")
	if made.keyText == "" {
		made.keyText = "one for all"
	}
	if r.Override >= 0 {
		made.Override = &r.Override
	}
	for _, a := range r.Limits {
		made.Limits = append(made.Limits, decidedLimit{
			Rule: a.Rule.ID, Name: a.Name, Limit: a.Limit.String(), Allowed: a.Decision.Allowed, Asked: a.Decision.Limit != 0,
			Shadow: a.Shadow, Remaining: a.Decision.Remaining, RetryAfterMs: millis(a.Decision.RetryAfter),
		})
	}
	return made
}

func (p *program) sayExplained(x *explained) error {
	if len(x.Rules) == 0 {
		p.say("No rule matches: the request passes.\n")
		return nil
	}
	var rows [][]string
	for i := range x.Rules {
		r := &x.Rules[i]
		effect := r.Effect
		if r.Client != "" {
			effect += ", client " + r.Client
		}
		if r.Override != nil {
			effect += fmt.Sprintf(", override %d", *r.Override+1)
		}
		if len(r.Limits) == 0 {
			rows = append(rows, []string{r.Rule, effect, "-", "-", "-", "-", says(!r.Denies, r.Shadow)})
			continue
		}
		for _, l := range r.Limits {
			rows = append(rows, []string{
				r.Rule, effect, r.keyText, fmt.Sprint(r.Cost), l.Limit, fmt.Sprint(l.Remaining), says(l.Allowed, r.Shadow),
			})
		}
	}
	if err := p.table([]string{"RULE", "EFFECT", "COUNTED BY", "COST", "LIMIT", "REMAINING", "SAYS"}, rows); err != nil {
		return err
	}
	p.say("\nDecision: %s", x.Verdict.Verdict)
	if x.Verdict.Rule != "" {
		p.say(" by %s", x.Verdict.Rule)
	}
	p.say("\n")
	return nil
}

func says(allows, shadow bool) string {
	switch {
	case allows:
		return "allow"
	case shadow:
		return "deny, in the shadow"
	default:
		return "deny"
	}
}
