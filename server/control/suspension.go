package control

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A Suspension turns off the enforcement of one rule, or of all rules of its namespace, until it expires: requests over
// a limit are admitted and counted, as with on_limit: shadow. Its ID is SuspensionID.
type Suspension struct {
	// Namespace, Node and Scope are set only in responses. Scope is ScopeFleet if enforcement was turned off by the rules
	// service, for all nodes, and ScopeNode if it was turned off on one node, whose ID is Node.
	Namespace string `json:"namespace,omitempty"`
	Node      string `json:"node,omitempty"`
	// Rule is the ID of the rule. Empty means all rules of the namespace.
	Rule    string    `json:"rule,omitempty"`
	Scope   string    `json:"scope,omitempty"`
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"`
	Note    string    `json:"note,omitempty"`
	// By is the ID of the token that created the suspension.
	By string `json:"by"`
}

// The scopes of a Suspension.
const (
	ScopeFleet = "fleet"
	ScopeNode  = "node"
)

// MaxSuspension is the maximum duration of a suspension. A rule that should never be enforced sets on_limit: shadow
// instead.
const MaxSuspension = 7 * 24 * time.Hour

// allRulesID is the ID of the suspension of all rules. No rule has this ID.
const allRulesID = "*"

// SuspensionID returns the ID of the suspension of a rule, or of all rules if rule is empty. So a namespace has at most
// one suspension for each rule, and one for all rules.
func SuspensionID(rule string) string {
	if rule == "" {
		return allRulesID
	}
	return rule
}

// Body returns the suspension as stored.
func (s Suspension) Body() ([]byte, error) {
	s.Since, s.Expires = s.Since.UTC(), s.Expires.UTC()
	return json.Marshal(s)
}

// ParseSuspension reads a stored suspension.
func ParseSuspension(id string, body []byte) (s Suspension, err error) {
	if err = json.Unmarshal(body, &s); err == nil && SuspensionID(s.Rule) != id {
		err = fmt.Errorf("its body belongs to %s", rules.Quote(SuspensionID(s.Rule)))
	}
	if err != nil {
		return s, fmt.Errorf("suspension %s: %w", rules.Quote(id), err)
	}
	return s, nil
}

// CheckSuspensionTime returns "" if d is a valid duration of a suspension, else a description of the valid ones.
func CheckSuspensionTime(d time.Duration) string {
	if d < time.Second || d > MaxSuspension {
		return `a time of 1s to 7d, as in "30m"`
	}
	return ""
}

// MaxNodeSuspensions is the maximum number of suspensions in a heartbeat.
const MaxNodeSuspensions = 100

// suspensionProblems returns the invalid fields of the suspensions in a heartbeat.
func suspensionProblems(suspensions []Suspension) (list []source.Problem) {
	if n := len(suspensions); n > MaxNodeSuspensions {
		return []source.Problem{{
			Path: "enforcement_off", Value: fmt.Sprintf("%d elements", n), Want: fmt.Sprintf("at most %d", MaxNodeSuspensions),
		}}
	}
	for i := range suspensions {
		s := &suspensions[i]
		for _, text := range []struct{ name, value string }{{"rule", s.Rule}, {"note", s.Note}, {"by", s.By}} {
			if len(text.value) > rules.MaxText {
				list = append(list, source.Problem{
					Path: fmt.Sprintf("enforcement_off[%d].%s", i, text.name), Want: fmt.Sprintf("at most %d bytes", rules.MaxText),
				})
			}
		}
	}
	return list
}
