package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
)

// getKeys serves GET /v1/keys: the counters of a client under each rule.
func (s *Server) getKeys(c *call.Call) error {
	attributes := make(map[string]string)
	for name, values := range c.Query {
		if name != "namespace" {
			attributes[name] = values[0]
		}
	}
	poll, err := s.pollNodes(c, nodequery.Query{Attributes: attributes})
	if err != nil {
		return err
	}
	response := nodequery.Counters{Keys: []nodequery.Counter{}}
	for _, n := range poll.Responded() {
		response.More = max(response.More, n.Response.More)
		for _, rule := range n.Response.Keys {
			counter := nodequery.Counter{Rule: rule}
			if n.Counters != "" && rule.Mode == rules.Exact.String() {
				counter.Counters = n.Counters // nodes share this store; all other counters are in a node's memory
			} else {
				counter.Node, counter.Region = n.ID, n.Region
			}
			response.Keys = append(response.Keys, counter)
		}
	}
	slices.SortStableFunc(response.Keys, func(a, b nodequery.Counter) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node))
	})
	response.Nodes, response.Error = poll.Statuses()
	return c.Respond(http.StatusOK, response)
}

// pollNodes queries the nodes of the call's namespace. It returns an error if none responds.
func (s *Server) pollNodes(c *call.Call, q nodequery.Query) (*nodequery.Poll, error) {
	if len(q.Attributes) == 0 {
		return nil, problem.New(http.StatusBadRequest, "Name the client by an attribute and its value, such as user=acme.")
	}
	client, err := nodequery.ReadAttributes(s.config.Identifier, q.Attributes)
	if err != nil {
		return nil, problem.InvalidInput("attributes", err)
	}
	c.SetDeadlines(call.BodyTime, 2*call.BodyTime)
	ctx := c.R.Context()
	poll, err := s.poller.Poll(ctx, c.Namespace, client, q)
	switch {
	case err != nil:
		return nil, err
	case len(poll.Nodes) == 0:
		return nil, problem.New(http.StatusNotFound,
			"There is no node that has the rules of the namespace %s in force.", c.Namespace)
	case poll.HasError(nodequery.ErrTooManyRules): // nodes return it only for a reset
		return nil, problem.New(http.StatusUnprocessableEntity,
			"More than %d rules count this client: name one.", nodequery.MaxRules)
	case len(poll.Responded()) > 0:
		return poll, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	_, failures := poll.Statuses()
	return nil, problem.New(http.StatusBadGateway, "No node has responded: %s.",
		cmp.Or(failures, nodequery.AllSilent))
}

// A resetRequest names a client whose counters to reset.
type resetRequest struct {
	Attributes map[string]string `field:"attributes"`
	// Rule is the rule whose counters to reset. Default all rules that count the client.
	Rule string `field:"rule"`
}

// resetKeys serves POST /v1/keys:reset.
func (s *Server) resetKeys(c *call.Call) error {
	var request resetRequest
	if err := c.ReadJSON(&request); err != nil {
		return err
	}
	q := nodequery.Query{Attributes: request.Attributes, Reset: true, Named: request.Rule != ""}
	if q.Named {
		q.Rules = []string{request.Rule}
	}
	poll, err := s.pollNodes(c, q)
	if err != nil {
		return err
	}
	response := nodequery.ResetReport{Reset: []string{}}
	missing := true
	for _, n := range poll.Responded() {
		missing = missing && n.Response.Missing
		response.Reset = append(response.Reset, n.Response.Reset...)
	}
	if missing {
		return problem.New(http.StatusNotFound, "No node has a rule %s in force.", rules.Quote(request.Rule))
	}
	slices.Sort(response.Reset)
	response.Reset = slices.Compact(response.Reset)
	response.Nodes, response.Error = poll.Statuses()
	responded := len(poll.Responded())
	listed := response.Reset[:min(len(response.Reset), maxEventRules)]
	s.recordEvent(c, c.Namespace, eventReset, resetEvent{
		Client: eventAttributes(request.Attributes), Rules: listed, More: len(response.Reset) - len(listed),
		Nodes: responded, Error: truncate(response.Error, maxEventText),
	})
	s.config.Logger.Info("rules service: counters reset", "by", c.Caller.ID, "from", c.From,
		"rules", response.Reset, "nodes", responded, "err", response.Error)
	return c.Respond(http.StatusOK, response)
}

// respondKeys serves POST /v1/hooks/keys, to which rules services send their queries for the node in this process.
func (s *Server) respondKeys(c *call.Call) error {
	if s.config.Responder == nil {
		return problem.New(http.StatusNotFound, "This process is not a node of a rules service.")
	}
	s.config.Responder.ServeHTTP(c.W, c.R)
	return nil
}
