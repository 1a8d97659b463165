package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

func (p *program) explainCommand() *cobra.Command {
	q := &question{repeat: 1}
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say which rules match a request, and what each would decide",
		Long: `Say which rules match a request, what each of them would decide, and which one is tightest. Nothing is taken.

With --rules FILE the rules of the file are asked. Counters are in memory and start empty, or with --store those of Redis.
Without --rules the rules service is asked, which knows the rules in force, registered clients, overrides and counters.` + attributesLong + `

The exit code is 0 if the request would pass, 3 if it would be denied, 1 if something is wrong.`,
		Example: `  # by the rules in force
  headgate explain --set user=alice --set path=/search

  # by a file
  headgate explain --rules rules.yaml --set host=api.example.com --set path=/v1/orders`,
		Args: cobra.NoArgs,
	}
	q.add(p, c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return p.ask(c, q, p.explain, func(x *explained) error { return p.showExplained(q, x) })
	}
	return c
}

// An explained is what all rules that match would decide.
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

	keys []string // attribute=value
}

func (r *explainedRule) addKey(attribute, value string) {
	if r.Key == nil {
		r.Key = make(map[string]string)
	}
	r.Key[attribute] = value
	r.keys = append(r.keys, attribute+"="+dash(value))
}

// counted says by what the rule counts.
func (r *explainedRule) counted() string {
	if len(r.keys) == 0 {
		return "one for all"
	}
	return strings.Join(r.keys, " ")
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
	return p.showExplained(q, &made)
}

// showExplained shows an explanation. Its verdict says the exit code.
func (p *program) showExplained(q *question, made *explained) (err error) {
	if q.out != formatTable {
		err = p.show(q.out, made, nil, nil)
	} else {
		err = p.sayExplained(made)
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
	for _, k := range r.Key {
		made.addKey(k.Attribute.String(), k.Value)
	}
	if r.Override >= 0 {
		made.Override = &r.Override
	}
	for _, a := range r.Limits {
		made.Limits = append(made.Limits, newDecidedLimit(&a))
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
				r.Rule, effect, r.counted(), fmt.Sprint(r.Cost), l.Limit, l.remaining(), says(l.Allowed, r.Shadow),
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
		return "deny (shadow)"
	default:
		return "deny"
	}
}
