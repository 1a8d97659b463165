package nodequery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A Node decides requests by the rules in force. *engine.Engine implements it.
type Node interface {
	// Rules returns the rules in force.
	Rules() *match.Set
	// ExplainWith returns how a request would be decided, without consuming units.
	ExplainWith(ctx context.Context, s rules.Subject, t engine.DecideOptions) (*engine.Explanation, error)
	// Reset resets the counters of a client under a rule.
	Reset(ctx context.Context, rule string, s rules.Subject) error
}

var _ Node = (*engine.Engine)(nil)

// A Response is the response of a node to a Query.
type Response struct {
	Node string `json:"node"`
	Keys []Rule `json:"keys"`
	// More is the number of rules that count the client, but are not in Keys.
	More int `json:"more,omitempty"`
	// Reset are the IDs of the rules whose counters were reset.
	Reset []string `json:"reset,omitempty"`
	// Missing means that the named rule is not in force.
	Missing bool `json:"missing,omitempty"`
	// Traffic is the response to Query.Traffic.
	Traffic json.RawMessage `json:"traffic,omitempty"`
	// Error names the stores that are unreachable.
	Error string `json:"error,omitempty"`
}

// MaxRules is the maximum number of rules in one query.
const MaxRules = 1000

// ErrTooManyRules means that a query would reset the client's counters under more than MaxRules rules.
var ErrTooManyRules = fmt.Errorf("more than %d rules count this client: name one", MaxRules)

// StoreTimeout limits how long a node waits for its stores.
const StoreTimeout = 5 * time.Second

// respond runs a query on a node. It can only return ErrTooManyRules. Errors of stores are in the response.
func respond(ctx context.Context, node Node, client rules.Subject, q *Query) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	r := &Response{Node: q.Node, Keys: []Rule{}}
	ids := q.Rules
	if len(ids) == 0 {
		ids, r.More = matchingRules(node.Rules(), client)
		if q.Reset && r.More > 0 {
			return nil, ErrTooManyRules
		}
	}
	var errs []error
	for _, id := range ids {
		err := r.add(ctx, node, client, id, q.Reset)
		if errors.Is(err, engine.ErrNoRule) { // the rule was deleted, or never existed
			r.Missing = r.Missing || q.Named
			continue
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		r.Error = StoreErrorText(err)
	}
	return r, nil
}

// add explains one rule, or resets its counters.
func (r *Response) add(ctx context.Context, node Node, client rules.Subject, id string, reset bool) error {
	if reset {
		err := node.Reset(ctx, id, client)
		if err == nil {
			r.Reset = append(r.Reset, id)
		}
		return err
	}
	x, err := node.ExplainWith(ctx, client, engine.DecideOptions{Rule: id, HasCost: true})
	if x != nil {
		for i := range x.Rules {
			r.Keys = append(r.Keys, NewRule(&x.Rules[i]))
		}
	}
	return err
}

// matchingRules returns the IDs of up to MaxRules rules that count a client, and how many more there are.
func matchingRules(set *match.Set, client rules.Subject) (ids []string, more int) {
	for _, r := range set.Rules() {
		switch {
		case !counts(r, client):
		case len(ids) == MaxRules:
			more++
		default:
			ids = append(ids, r.ID)
		}
	}
	return ids, more
}

// counts reports whether a rule counts requests of a client, judged by the client's known attributes.
func counts(r *rules.Rule, client rules.Subject) bool {
	if len(r.Key) == 0 {
		return false
	}
	unknown := func(a headgate.Attribute) bool {
		value, _ := client.Get(a)
		return value == ""
	}
	if !slices.ContainsFunc(r.Key, unknown) {
		return true
	}
	return r.Fallback == rules.FallbackIP && !unknown(headgate.Attribute{Kind: headgate.AttrIP})
}
