package trafficapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control/api/internal/call"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/fleettraffic"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/fleetseries"
	"github.com/headgate/headgate/server/telemetry/traffic/ruleorder"
)

// errTooManyNamespaces returns the problem for fleettraffic.ErrTooMany.
func errTooManyNamespaces() error {
	return problem.New(http.StatusServiceUnavailable,
		"Traffic statistics are already kept for the maximum number of namespaces.")
}

// history returns the statistics of the namespace of a call.
func (h *Handlers) history(c *call.Call) (*traffic.History, error) {
	if h.options.NodeHistory != nil {
		if c.Namespace != h.options.LocalNamespace {
			return nil, problem.New(http.StatusNotFound, "This node has the rules of the namespace %s.", h.options.LocalNamespace)
		}
		return h.options.NodeHistory, nil
	}
	history, err := h.options.Store.History(c.R.Context(), c.Namespace)
	if errors.Is(err, fleettraffic.ErrTooMany) {
		return nil, errTooManyNamespaces()
	}
	return history, err
}

// readWindow reads the parameter window.
func readWindow(c *call.Call, minimum time.Duration) (time.Duration, error) {
	text := c.Query.Get("window")
	if text == "" {
		return defaultWindow, nil
	}
	d, err := parseDuration(text)
	if err != nil || d < minimum || d > traffic.MaxWindow {
		return 0, problem.InvalidQuery("window", text,
			rules.FormatDuration(minimum)+" to "+rules.FormatDuration(traffic.MaxWindow)+", such as 10m, 24h or 2d")
	}
	return d, nil
}

// parseDuration parses a duration of Go, such as 1.5h, or of rules, such as 7d.
func parseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	return rules.ParseDuration(text)
}

// The defaults of the query parameters, and the maximum of the parameter limit.
const (
	defaultWindow      = 10 * time.Minute
	defaultRuleLimit   = 100
	defaultClientLimit = 20
	maxLimitParam      = 1000
)

// checkNodeWindow returns an error if a window is longer than the statistics of a single node.
func (h *Handlers) checkNodeWindow(window, kept time.Duration) error {
	if h.options.NodeHistory != nil && window > kept {
		return problem.InvalidQuery("window", traffic.Short(window), "at most "+traffic.Short(kept)+" on a single node")
	}
	return nil
}

// Get serves GET /v1/traffic.
func (h *Handlers) Get(c *call.Call) error {
	window, err := readWindow(c, traffic.MinWindow)
	if err != nil {
		return err
	}
	selected := c.Query["rule"]
	if len(selected) > maxLimitParam {
		return problem.InvalidQuery("rule", selected[maxLimitParam], "at most 1000 rules")
	}
	limit, err := c.Number("limit", max(defaultRuleLimit, int64(len(selected))), 1, maxLimitParam)
	if err != nil {
		return err
	}
	q := traffic.SeriesQuery{Window: window, Limit: int(limit), Order: ruleorder.Order(c.Query.Get("order"))}
	if q.Order != "" && q.Order != ruleorder.ByRequests && q.Order != ruleorder.ByDenied {
		return problem.InvalidQuery("order", string(q.Order), "requests or denied")
	}
	if len(selected) > 1 {
		q.Rules = selected
	} else {
		q.Rule = c.Query.Get("rule")
	}
	if err := h.checkNodeWindow(window, traffic.NodeHistoryKeep); err != nil {
		return err
	}
	if node, region := c.Query.Get("node"), c.Query.Get("region"); node != "" || region != "" {
		return h.getFromNodes(c, q, node, region)
	}
	history, err := h.history(c)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, history.Series(q, h.options.Now()))
}

// EventErase is the name of an erasure in the audit log.
const EventErase = "traffic.erase"

// getFromNodes queries one node, or the nodes of a region, and responds with the sum of their own series.
func (h *Handlers) getFromNodes(c *call.Call, q traffic.SeriesQuery, node, region string) error {
	if q.Window > traffic.NodeHistoryKeep {
		return problem.InvalidQuery("window", traffic.Short(q.Window), "at most "+traffic.Short(traffic.NodeHistoryKeep)+" with node or region")
	}
	poll, responses, err := h.poll(c, traffic.NodeQuery{Series: &q}, func(id, nodeRegion string) bool {
		return (node == "" || id == node) && (region == "" || nodeRegion == region)
	})
	switch {
	case err != nil:
		return err
	case len(poll.Nodes) == 0 && node != "":
		return problem.New(http.StatusNotFound, "There is no node %s.", rules.Quote(node))
	case len(poll.Nodes) == 0:
		return problem.New(http.StatusNotFound, "There is no node in the region %s.", rules.Quote(region))
	}
	var list []*traffic.Series
	for i := range responses {
		list = append(list, responses[i].Series)
	}
	statuses, failureText := poll.Statuses()
	merged := fleetseries.Merge(list, &q)
	if merged == nil {
		return problem.New(http.StatusBadGateway, "No node has responded: %s.",
			cmp.Or(failureText, nodequery.AllSilent))
	}
	return c.Respond(http.StatusOK, struct {
		*traffic.Series
		Nodes []nodequery.NodeStatus `json:"nodes"`
		Error string                 `json:"error,omitempty"`
	}{merged, statuses, failureText})
}

// GetClients serves GET /v1/traffic/clients.
func (h *Handlers) GetClients(c *call.Call) error {
	window, err := readWindow(c, time.Minute)
	if err != nil {
		return err
	}
	if h.options.NodeHistory != nil && c.Query.Get("window") == "" {
		window = traffic.NodeHistoryClients
	}
	if err := h.checkNodeWindow(window, traffic.NodeHistoryClients); err != nil {
		return err
	}
	limit, err := c.Number("limit", defaultClientLimit, 1, maxLimitParam)
	if err != nil {
		return err
	}
	q := traffic.ClientsQuery{
		Rule: c.Query.Get("rule"), Search: c.Query.Get("q"), Window: window, Limit: int(limit),
	}
	q.Searched = h.searchedForms(q.Search)
	if q.Series, err = c.Flag("series"); err != nil {
		return err
	}
	if q.Client, err = h.clientFromQuery(c); err != nil {
		return err
	}
	switch order := c.Query.Get("order"); order {
	case "", "denied":
	case "requests":
		q.Requests = true
	default:
		return problem.InvalidQuery("order", order, "denied or requests")
	}
	history, err := h.history(c)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, history.Clients(q, h.options.Now()))
}

// Live serves GET /v1/traffic/live with an event each second.
func (h *Handlers) Live(c *call.Call) error {
	limit, err := c.Number("limit", defaultRuleLimit, 1, maxLimitParam)
	if err != nil {
		return err
	}
	history, err := h.history(c)
	if err != nil {
		return err
	}
	if h.liveStreams.Add(1) > int64(h.options.MaxStreams) {
		h.liveStreams.Add(-1)
		p := problem.New(http.StatusServiceUnavailable, "There are %d live streams, which is the maximum.", h.options.MaxStreams)
		p.RetryAfter = 5 * time.Second
		return p
	}
	defer h.liveStreams.Add(-1)
	stream := c.StartStream()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	checked := h.options.Now()
	for {
		now := h.options.Now()
		if now.Sub(checked) >= h.options.TokenCheckInterval() {
			if checked = now; !h.options.TokenValid(c) {
				return nil
			}
		}
		data, err := json.Marshal(history.Live(c.Query.Get("rule"), int(limit), now))
		if err != nil {
			return err
		}
		if stream.Write("event: traffic\ndata: "+string(data)+"\n\n") != nil {
			return nil // the caller has disconnected
		}
		select {
		case <-c.R.Context().Done():
			return nil
		case <-h.options.StreamContext.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Report serves POST /v1/traffic:report, the reports of nodes.
func (h *Handlers) Report(c *call.Call) error {
	data, err := c.ReadJSONBody()
	if err != nil {
		return err
	}
	r, err := traffic.ParseReport(data)
	if err != nil {
		return problem.New(http.StatusBadRequest, "The report cannot be read: %v.", err)
	}
	if !control.IsName(r.Node) {
		return problem.InvalidField("node", rules.Quote(r.Node), control.NameFormat)
	}
	for i := range r.Seconds {
		for j := range r.Seconds[i].Rows {
			if id := r.Seconds[i].Rows[j].Rule; len(id) > control.MaxID || !control.IsText(id) {
				return problem.InvalidField("seconds", rules.Quote(id), "the id of a rule")
			}
		}
	}
	if ok, err := h.options.Nodes.MayRegister(c.R.Context(), c.Namespace, r.Node, c.Caller.ID); err != nil {
		return err
	} else if !ok {
		return problem.New(http.StatusForbidden, "The node %s was registered with a token other than %s.",
			r.Node, c.Caller.ID)
	}
	erasures, cursor, err := h.options.Store.Report(c.R.Context(), c.Namespace, r)
	if errors.Is(err, fleettraffic.ErrTooMany) {
		return errTooManyNamespaces()
	} else if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, control.TrafficResponse{Erase: eraseList(erasures), Cursor: cursor})
}

// eraseList converts erasures for a response.
func eraseList(list []fleettraffic.Erasure) []control.TrafficErasure {
	result := make([]control.TrafficErasure, len(list))
	for i, e := range list {
		result[i] = control.TrafficErasure{Time: e.Time, Client: e.Client}
	}
	return result
}

// Erase serves POST /v1/traffic/clients:erase.
func (h *Handlers) Erase(c *call.Call) error {
	var body struct {
		Client map[string]string `field:"client"`
	}
	if err := c.ReadJSON(&body); err != nil {
		return err
	}
	if len(body.Client) == 0 {
		return problem.InvalidField("client", "", `attributes, such as {"user":"noisy"}`)
	}
	for name := range body.Client {
		if _, err := headgate.ParseAttribute(name); err != nil {
			return problem.InvalidInput("client", err)
		}
	}
	client, err := h.stored(body.Client)
	if err != nil {
		return err
	}
	removed, err := h.options.Store.Erase(c.R.Context(), c.Namespace, client)
	if err != nil {
		return err
	}
	if removed > 0 { // else nothing has changed
		// The event has only the names of the attributes, because erased values must not remain in the audit log.
		h.options.RecordEvent(c, c.Namespace, EventErase, struct {
			Attributes string `json:"attributes"`
			Entries    int    `json:"entries"`
		}{strings.Join(slices.Sorted(maps.Keys(body.Client)), ", "), removed})
	}
	return c.Respond(http.StatusOK, struct {
		Erased int `json:"erased"`
	}{removed})
}
