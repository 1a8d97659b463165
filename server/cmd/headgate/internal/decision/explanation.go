package decision

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// An Explanation is a decision with the decisions of all matching rules.
type Explanation struct {
	Verdict Decision       `json:"verdict"`
	Rules   []RuleDecision `json:"rules"`
}

// A RuleDecision is the decision of one rule.
type RuleDecision struct {
	Rule     string            `json:"ruleId"`
	Effect   string            `json:"effect"`
	Mode     string            `json:"mode"`
	Shadow   bool              `json:"shadow,omitempty"`
	Denies   bool              `json:"denies"`
	Key      map[string]string `json:"key,omitempty"`
	Client   string            `json:"client,omitempty"`
	Override *int              `json:"override,omitempty"` // index in the rule's list of overrides
	Cost     int64             `json:"cost"`
	Limits   []LimitDecision   `json:"limits"`

	keys []string // attribute=value
}

// NewExplanation converts an explanation of the engine.
func NewExplanation(e *engine.Explanation) *Explanation {
	x := &Explanation{Verdict: New(&e.Verdict), Rules: []RuleDecision{}}
	for i := range e.Rules {
		x.Rules = append(x.Rules, newRule(&e.Rules[i]))
	}
	return x
}

func newRule(e *engine.RuleExplanation) RuleDecision {
	r := RuleDecision{
		Rule: e.Rule.ID, Effect: e.Effect.String(), Mode: e.Mode.String(), Shadow: e.Shadow,
		Denies: e.Denied || e.Effect.Denies(),
		Cost:   e.Cost, Client: e.Client, Limits: []LimitDecision{},
	}
	for _, k := range e.Key {
		r.addKey(k.Attribute.String(), k.Value)
	}
	if e.Override >= 0 {
		r.Override = &e.Override
	}
	for _, a := range e.Limits {
		r.Limits = append(r.Limits, newLimit(&a))
	}
	return r
}

func (r *RuleDecision) addKey(attribute, value string) {
	if r.Key == nil {
		r.Key = make(map[string]string)
	}
	r.Key[attribute] = value
	r.keys = append(r.keys, attribute+"="+output.OrDash(value))
}

// keyText returns the attributes by which the rule counts, for a table.
func (r *RuleDecision) keyText() string {
	if len(r.keys) == 0 {
		return "all requests together"
	}
	return strings.Join(r.keys, " ")
}

// Table returns the header and rows of a table with a row for each limit of each rule.
func (x *Explanation) Table() (header []string, rows [][]string) {
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
			rows = append(rows, []string{r.Rule, effect, "-", "-", "-", "-", verdictText(!r.Denies, r.Shadow)})
			continue
		}
		for _, l := range r.Limits {
			rows = append(rows, []string{
				r.Rule, effect, r.keyText(), fmt.Sprint(r.Cost), l.Limit, l.remainingText(), verdictText(l.Allowed, r.Shadow),
			})
		}
	}
	return []string{"RULE", "EFFECT", "COUNTED BY", "COST", "LIMIT", "REMAINING", "DECISION"}, rows
}

func verdictText(allows, shadow bool) string {
	switch {
	case allows:
		return "allow"
	case shadow:
		return "deny (shadow)"
	default:
		return "deny"
	}
}
