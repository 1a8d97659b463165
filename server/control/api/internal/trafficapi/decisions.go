package trafficapi

import (
	"net/http"
	"slices"

	"github.com/headgate/headgate/server/control/api/internal/call"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// defaultDecisions and maxDecisions are the default and the largest limit of GET /v1/traffic/decisions.
const (
	defaultDecisions = 50
	maxDecisions     = 500
)

// clientFromQuery returns the client that the query parameters name. Its attribute values have the form in which
// statistics store them: values that may be secret are hashed. The route's own parameters are not attributes.
func (h *Handlers) clientFromQuery(c *call.Call) (map[string]string, error) {
	attributes := map[string]string{}
	for name, values := range c.Query {
		if name == "namespace" || slices.Contains(c.Parameters, name) {
			continue
		}
		if _, err := headgate.ParseAttribute(name); err != nil {
			return nil, problem.New(http.StatusBadRequest, "?%s is neither a parameter of this call nor an attribute: %v.", name, err)
		}
		attributes[name] = values[0]
	}
	return h.stored(attributes)
}

// stored returns attributes in the form in which statistics store them.
func (h *Handlers) stored(attributes map[string]string) (map[string]string, error) {
	given, stored := map[string]string{}, map[string]string{}
	for name, value := range attributes {
		if traffic.IsHidden(value) { // the caller has copied it from a list of clients
			stored[name] = value
		} else {
			given[name] = value
		}
	}
	client, err := nodequery.ReadAttributes(h.options.Identifier, given)
	if err != nil {
		return nil, problem.InvalidInput("attributes", err)
	}
	for name, value := range given {
		if a, err := headgate.ParseAttribute(name); err == nil {
			if counted, ok := client.Get(a); ok {
				value = counted // an IPv6 address may be counted by its network
			}
		}
		stored[name] = h.options.Namer.Kept(name, value)
	}
	return stored, nil
}

// searchedForms returns a text in the forms in which statistics store it if it is a whole value, such as a secret or an
// address. Attributes that may be secret are stored in different forms.
func (h *Handlers) searchedForms(text string) []string {
	var forms []string
	for _, name := range []string{
		"user", "ip", "api_key", "bearer", "cookie.any", "query.any", "header.any", "header.authorization", "header.cookie",
		"header.proxy-authorization",
	} {
		stored, err := h.stored(map[string]string{name: text}) // err means that text is no value of the attribute
		if err == nil && text != "" && !slices.Contains(forms, stored[name]) {
			forms = append(forms, stored[name])
		}
	}
	return forms
}

// GetDecisions serves GET /v1/traffic/decisions: the last decisions of all nodes.
func (h *Handlers) GetDecisions(c *call.Call) error {
	limit, err := c.Number("limit", defaultDecisions, 1, maxDecisions)
	if err != nil {
		return err
	}
	q := traffic.DecisionsQuery{Rule: c.Query.Get("rule"), Limit: int(limit)}
	if q.Denied, err = c.Flag("denied"); err != nil {
		return err
	}
	if q.Client, err = h.clientFromQuery(c); err != nil {
		return err
	}
	poll, responses, err := h.poll(c, traffic.NodeQuery{Decisions: &q}, nil)
	if err != nil {
		return err
	}
	response := struct {
		Decisions []traffic.Decision     `json:"decisions"`
		Nodes     []nodequery.NodeStatus `json:"nodes"`
		Error     string                 `json:"error,omitempty"` // failures of nodes
	}{Decisions: []traffic.Decision{}}
	for _, found := range responses {
		response.Decisions = append(response.Decisions, found.Decisions...)
	}
	slices.SortStableFunc(response.Decisions, func(a, b traffic.Decision) int { return b.Time.Compare(a.Time) })
	response.Decisions = response.Decisions[:min(len(response.Decisions), q.Limit)]
	response.Nodes, response.Error = poll.Statuses()
	return c.Respond(http.StatusOK, response)
}
