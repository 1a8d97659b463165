package api

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/keys"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// defaultDecisions and maxDecisions are the default and the largest limit of GET /v1/traffic/decisions.
const (
	defaultDecisions = 50
	maxDecisions     = 500
)

// keptClient returns the attributes among the query parameters in the form in which the statistics have them, so that
// secrets are hashed. The parameters of the route besides attributes are skipped.
func (s *Server) keptClient(c *call) (map[string]string, error) {
	given, kept := map[string]string{}, map[string]string{}
	for name, values := range c.query {
		if name == "namespace" || slices.Contains(c.route.Query, name) {
			continue
		}
		if _, err := headgate.ParseAttribute(name); err != nil {
			return nil, problem.New(http.StatusBadRequest, "?%s is neither a parameter of this nor an attribute: %v.", name, err)
		}
		if traffic.IsHidden(values[0]) { // copied from a list of clients
			kept[name] = values[0]
		} else {
			given[name] = values[0]
		}
	}
	client, err := keys.ReadAttributes(s.config.Identifier, given)
	if err != nil {
		return nil, problem.InvalidInput("attributes", err)
	}
	for name, value := range given {
		if a, err := headgate.ParseAttribute(name); err == nil {
			if counted, ok := client.Get(a); ok {
				value = counted // an address may be counted as its network
			}
		}
		kept[name] = s.config.Namer.Kept(name, value)
	}
	return kept, nil
}

// getDecisions serves GET /v1/traffic/decisions: the last decisions of all nodes.
func (s *Server) getDecisions(c *call) error {
	limit, err := c.number("limit", defaultDecisions, 1, maxDecisions)
	if err != nil {
		return err
	}
	q := traffic.DecisionsQuery{Rule: c.query.Get("rule"), Limit: int(limit)}
	if q.Denied, err = c.flag("denied"); err != nil {
		return err
	}
	if q.Client, err = s.keptClient(c); err != nil {
		return err
	}
	query, err := json.Marshal(traffic.NodeQuery{Decisions: &q})
	if err != nil {
		return err
	}
	c.setDeadlines(bodyTime, 2*bodyTime)
	poll, err := s.poller.PollTraffic(c.r.Context(), c.namespace, query, func(string, string) bool { return true })
	if err != nil {
		return err
	}
	response := struct {
		Decisions []traffic.Decision `json:"decisions"`
		Nodes     []keys.NodeStatus  `json:"nodes"`
		Error     string             `json:"error,omitempty"` // failures of nodes
	}{Decisions: []traffic.Decision{}}
	for _, n := range poll.Responded() {
		var found traffic.NodeResponse
		if err := json.Unmarshal(n.Response.Traffic, &found); err != nil {
			n.Response, n.Err = nil, err
			continue
		}
		for i := range found.Decisions {
			found.Decisions[i].Node = n.ID // a node speaks for itself only
		}
		response.Decisions = append(response.Decisions, found.Decisions...)
	}
	slices.SortStableFunc(response.Decisions, func(a, b traffic.Decision) int { return b.Time.Compare(a.Time) })
	response.Decisions = response.Decisions[:min(len(response.Decisions), q.Limit)]
	response.Nodes, response.Error = poll.Statuses()
	return c.respond(http.StatusOK, response)
}
