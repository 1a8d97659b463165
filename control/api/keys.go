package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// maxKeyRules is how many rules are looked at for one client.
const maxKeyRules = 1000

// keys answers GET /v1/keys: what a client has left under each rule that counts it.
func (s *Server) keys(c *call) error {
	node, err := s.node(c)
	if err != nil {
		return err
	}
	attributes := make(map[string]string)
	for name, values := range c.query {
		if name != "namespace" {
			attributes[name] = values[0]
		}
	}
	who, err := s.client(attributes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), lookTime)
	defer cancel()
	counted, more := counting(node.Rules(), who)
	made := struct {
		Keys []ruleView `json:"keys"`
		More int        `json:"more,omitempty"`
		// Error says which stores could not be looked at.
		Error string `json:"error,omitempty"`
	}{Keys: []ruleView{}, More: more}
	var errs []error
	for _, id := range counted {
		x, err := node.ExplainTerms(ctx, who, engine.Terms{Rule: id, HasCost: true})
		if x == nil {
			if !errors.Is(err, engine.ErrNoRule) { // it has just gone
				errs = append(errs, err)
			}
			continue
		}
		errs = append(errs, err)
		for i := range x.Rules {
			made.Keys = append(made.Keys, ruleViewOf(&x.Rules[i]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		made.Error = err.Error()
	}
	return c.answer(http.StatusOK, made)
}

// client returns who has these attributes, of which there must be some.
func (s *Server) client(attributes map[string]string) (rules.Subject, error) {
	if len(attributes) == 0 {
		return nil, fail(http.StatusBadRequest, "Say who: an attribute and its value, as in user=acme.")
	}
	return s.subject(&explainCall{Attributes: attributes})
}

// counting returns the rules that count a client by what is known of it, and how many more there are.
func counting(set *rules.Set, who rules.Subject) (ids []string, more int) {
	for _, r := range set.Rules() {
		if !counts(r, who) {
			continue
		}
		if len(ids) == maxKeyRules {
			more++
			continue
		}
		ids = append(ids, r.ID)
	}
	return ids, more
}

// counts tells whether a rule counts a client by attributes that are known.
func counts(r *rules.Rule, who rules.Subject) bool {
	if len(r.Key) == 0 {
		return false
	}
	lacks := func(a headgate.Attribute) bool {
		value, _ := who.Get(a)
		return value == ""
	}
	if !slices.ContainsFunc(r.Key, lacks) {
		return true
	}
	return r.Fallback == rules.FallbackIP && !lacks(headgate.Attribute{Kind: headgate.AttrIP})
}

// A resetCall says whose counters are to be forgotten.
type resetCall struct {
	Attributes map[string]string `json:"attributes"`
	// Rule is the one under which, all that count the client if it is empty.
	Rule string `json:"rule"`
}

// resetKeys answers POST /v1/keys:reset.
func (s *Server) resetKeys(c *call) error {
	var asked resetCall
	if err := c.readInto(&asked); err != nil {
		return err
	}
	node, err := s.node(c)
	if err != nil {
		return err
	}
	who, err := s.client(asked.Attributes)
	if err != nil {
		return err
	}
	ids := []string{asked.Rule}
	if asked.Rule == "" {
		var more int
		if ids, more = counting(node.Rules(), who); more > 0 {
			return fail(http.StatusUnprocessableEntity, "More than %d rules count this client: name one.", maxKeyRules)
		}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), lookTime)
	defer cancel()
	done := []string{}
	var errs []error
	for _, id := range ids {
		switch err := node.Reset(ctx, id, who); {
		case errors.Is(err, engine.ErrNoRule) && asked.Rule != "":
			return noRule(err)
		case errors.Is(err, engine.ErrNoRule):
		case err != nil:
			errs = append(errs, err)
		default:
			done = append(done, id)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget what a client has consumed: %w", err)
	}
	s.config.Logger.Info("rules service: counters reset", "by", c.who.ID, "from", c.from, "rules", done)
	return c.answer(http.StatusOK, struct {
		Reset []string `json:"reset"`
	}{done})
}
