package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/headgate/headgate/rules"
)

// A keyView is what a client has left under one rule: on one node that counts by itself, or in a store that several share.
type keyView struct {
	ruleView
	// Node is the one that counts by itself, Region where it is.
	Node   string `json:"node,omitempty"`
	Region string `json:"region,omitempty"`
	// Counters is the store that several share.
	Counters string `json:"counters,omitempty"`
}

// keys answers GET /v1/keys: what a client has left under each rule that counts it.
func (s *Server) keys(c *call) error {
	attributes := make(map[string]string)
	for name, values := range c.query {
		if name != "namespace" {
			attributes[name] = values[0]
		}
	}
	p, err := s.askAll(c, question{Attributes: attributes})
	if err != nil {
		return err
	}
	made := struct {
		Keys  []keyView  `json:"keys"`
		More  int        `json:"more,omitempty"`
		Nodes []nodeView `json:"nodes"`
		// Error says which nodes and stores could not be asked.
		Error string `json:"error,omitempty"`
	}{Keys: []keyView{}}
	for _, n := range p.answered() {
		made.More = max(made.More, n.answer.More)
		for _, k := range n.answer.Keys {
			v := keyView{ruleView: k}
			if n.node.Counters != "" && k.Mode == rules.Exact.String() {
				v.Counters = n.node.Counters
			} else {
				v.Node, v.Region = n.node.ID, n.node.Region
			}
			made.Keys = append(made.Keys, v)
		}
	}
	slices.SortStableFunc(made.Keys, func(a, b keyView) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node)) })
	made.Nodes, made.Error = p.views()
	return c.answer(http.StatusOK, made)
}

// askAll asks the nodes of the call's namespace, of which at least one has to answer.
func (s *Server) askAll(c *call, q question) (*poll, error) {
	who, err := s.client(q.Attributes)
	if err != nil {
		return nil, err
	}
	q.Namespace = c.namespace
	c.give(bodyTime, 2*bodyTime)
	p, err := s.newPoll(c.r.Context(), c.namespace, who)
	if err != nil {
		return nil, err
	}
	if len(p.nodes) == 0 {
		return nil, fail(http.StatusNotFound, "There is no node that has the rules of the namespace %s in force.", c.namespace)
	}
	p.ask(c.r.Context(), q)
	if slices.ContainsFunc(p.nodes, func(n *polledNode) bool { return errors.Is(n.err, errTooManyRules) }) {
		return nil, fail(http.StatusUnprocessableEntity, "More than %d rules count this client: name one.", maxKeyRules)
	}
	if len(p.answered()) == 0 {
		if err := c.r.Context().Err(); err != nil {
			return nil, context.Cause(c.r.Context())
		}
		_, wrong := p.views()
		return nil, fail(http.StatusBadGateway, "None of the %d nodes has answered: %s.", len(p.nodes), cmp.Or(wrong, errSilent.Error()))
	}
	return p, nil
}

// client returns who has these attributes, of which there must be some.
func (s *Server) client(attributes map[string]string) (rules.Subject, error) {
	if len(attributes) == 0 {
		return nil, fail(http.StatusBadRequest, "Say who: an attribute and its value, as in user=acme.")
	}
	return s.subject(&explainCall{Attributes: attributes})
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
	q := question{Attributes: asked.Attributes, Reset: true, Named: asked.Rule != ""}
	if q.Named {
		q.Rules = []string{asked.Rule}
	}
	p, err := s.askAll(c, q)
	if err != nil {
		return err
	}
	made := struct {
		Reset []string   `json:"reset"`
		Nodes []nodeView `json:"nodes"`
		// Error says where it was not forgotten, or may not have been.
		Error string `json:"error,omitempty"`
	}{Reset: []string{}}
	missing := true
	for _, n := range p.answered() {
		missing = missing && n.answer.Missing
		for _, id := range n.answer.Reset {
			if !slices.Contains(made.Reset, id) {
				made.Reset = append(made.Reset, id)
			}
		}
	}
	if missing {
		return fail(http.StatusNotFound, "No node has a rule %s in force.", rules.Quote(asked.Rule))
	}
	slices.Sort(made.Reset)
	made.Nodes, made.Error = p.views()
	listed := made.Reset[:min(len(made.Reset), maxEventRules)]
	s.record(c, c.namespace, eventReset, resetEvent{
		Client: told(asked.Attributes), Rules: listed, More: len(made.Reset) - len(listed), Nodes: len(p.answered()), Error: abridged(made.Error, maxEventText),
	})
	s.config.Logger.Info("rules service: counters reset", "by", c.who.ID, "from", c.from, "rules", made.Reset, "nodes", len(p.answered()), "err", made.Error)
	return c.answer(http.StatusOK, made)
}
