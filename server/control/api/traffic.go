package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/fleettraffic"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/keys"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Traffic returns the statistics of the nodes, to which the node in this process reports.
func (s *Server) Traffic() *fleettraffic.Store { return s.traffic }

// trafficHistory returns the statistics of the namespace of a call.
func (s *Server) trafficHistory(c *call) (*traffic.History, error) {
	h, err := s.traffic.History(c.r.Context(), c.namespace)
	if errors.Is(err, fleettraffic.ErrTooMany) {
		return nil, problem.New(http.StatusServiceUnavailable, "There is no room for the traffic of another namespace.")
	}
	return h, err
}

// window reads the parameter window.
func (c *call) window(least time.Duration) (time.Duration, error) {
	text := c.query.Get("window")
	if text == "" {
		return defaultWindow, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > traffic.MaxWindow {
		return 0, problem.InvalidQuery("window", text, traffic.Short(least)+" to "+traffic.Short(traffic.MaxWindow))
	}
	return d, nil
}

// The defaults of the parameters, and the largest limit.
const (
	defaultWindow  = 10 * time.Minute
	defaultRules   = 100
	defaultClients = 20
	maxTraffic     = 1000
)

// getTraffic serves GET /v1/traffic.
func (s *Server) getTraffic(c *call) error {
	window, err := c.window(traffic.MinWindow)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", defaultRules, 1, maxTraffic)
	if err != nil {
		return err
	}
	q := traffic.SeriesQuery{Rule: c.query.Get("rule"), Window: window, Limit: int(limit)}
	if node, region := c.query.Get("node"), c.query.Get("region"); node != "" || region != "" {
		return s.getNodeTraffic(c, q, node, region)
	}
	h, err := s.trafficHistory(c)
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, h.Series(q, s.config.Now()))
}

// maxNodeWindow is the time for which nodes keep their own statistics.
const maxNodeWindow = 24 * time.Hour

// getNodeTraffic responds with the series of one node, or of the nodes of a region, which the nodes themselves keep.
func (s *Server) getNodeTraffic(c *call, q traffic.SeriesQuery, node, region string) error {
	if q.Window > maxNodeWindow {
		return problem.InvalidQuery("window", traffic.Short(q.Window), "at most "+traffic.Short(maxNodeWindow)+" with node or region")
	}
	query, err := json.Marshal(traffic.NodeQuery{Series: &q})
	if err != nil {
		return err
	}
	c.setDeadlines(bodyTime, 2*bodyTime)
	poll, err := s.poller.PollTraffic(c.r.Context(), c.namespace, query, func(id, of string) bool {
		return (node == "" || id == node) && (region == "" || of == region)
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
	for _, n := range poll.Responded() {
		var response traffic.NodeResponse
		if err := json.Unmarshal(n.Response.Traffic, &response); err != nil {
			n.Response, n.Err = nil, err
			continue
		}
		list = append(list, response.Series)
	}
	statuses, failures := poll.Statuses()
	merged := traffic.MergeSeries(list, q.Limit)
	if merged == nil {
		return problem.New(http.StatusBadGateway, "None of the %d nodes has answered: %s.", len(poll.Nodes),
			cmp.Or(failures, keys.ErrSilent.Error()))
	}
	return c.respond(http.StatusOK, struct {
		*traffic.Series
		Nodes []keys.NodeStatus `json:"nodes"`
		Error string            `json:"error,omitempty"`
	}{merged, statuses, failures})
}

// getTrafficClients serves GET /v1/traffic/clients.
func (s *Server) getTrafficClients(c *call) error {
	window, err := c.window(time.Minute)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", defaultClients, 1, maxTraffic)
	if err != nil {
		return err
	}
	q := traffic.ClientsQuery{
		Rule: c.query.Get("rule"), Search: c.query.Get("q"), Window: window, Limit: int(limit),
	}
	if q.Series, err = c.flag("series"); err != nil {
		return err
	}
	if q.Client, err = s.keptClient(c); err != nil {
		return err
	}
	switch order := c.query.Get("order"); order {
	case "", "denied":
	case "requests":
		q.Requests = true
	default:
		return problem.InvalidQuery("order", order, "denied or requests")
	}
	h, err := s.trafficHistory(c)
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, h.Clients(q, s.config.Now()))
}

// liveTraffic serves GET /v1/traffic/live with an event each second.
func (s *Server) liveTraffic(c *call) error {
	limit, err := c.number("limit", defaultRules, 1, maxTraffic)
	if err != nil {
		return err
	}
	h, err := s.trafficHistory(c)
	if err != nil {
		return err
	}
	if s.liveStreams.Add(1) > int64(s.config.MaxWatchers) {
		s.liveStreams.Add(-1)
		p := problem.New(http.StatusServiceUnavailable, "There are %d live streams, which is the most.", s.config.MaxWatchers)
		p.RetryAfter = 5 * time.Second
		return p
	}
	defer s.liveStreams.Add(-1)
	st := startStream(c)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	checked := s.config.Now()
	for {
		now := s.config.Now()
		if now.Sub(checked) >= s.keepAlive {
			if checked = now; !s.stillValid(c) {
				return nil
			}
		}
		data, err := json.Marshal(h.Live(c.query.Get("rule"), int(limit), now))
		if err != nil {
			return err
		}
		if st.write("event: traffic\ndata: "+string(data)+"\n\n") != nil {
			return nil // the caller has disconnected
		}
		select {
		case <-c.r.Context().Done():
			return nil
		case <-s.ended.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reportTraffic serves POST /v1/traffic:report, the reports of nodes.
func (s *Server) reportTraffic(c *call) error {
	data, err := c.readJSONBody()
	if err != nil {
		return err
	}
	var r traffic.Report
	if err := json.Unmarshal(data, &r); err != nil {
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
	if ok, err := s.nodes.MayRegister(c.r.Context(), c.namespace, r.Node, c.caller.ID); err != nil {
		return err
	} else if !ok {
		return problem.New(http.StatusForbidden, "The node %s is registered by another token than %s.", r.Node, c.caller.ID)
	}
	erasures, err := s.traffic.Report(c.r.Context(), c.namespace, &r)
	if errors.Is(err, fleettraffic.ErrTooMany) {
		return problem.New(http.StatusServiceUnavailable, "There is no room for the traffic of another namespace.")
	} else if err != nil {
		return err
	}
	return c.respond(http.StatusOK, control.TrafficResponse{Erase: eraseList(erasures)})
}

func eraseList(list []fleettraffic.Erasure) []control.TrafficErasure {
	result := make([]control.TrafficErasure, len(list))
	for i, e := range list {
		result[i] = control.TrafficErasure{Time: e.Time, Client: e.Client}
	}
	return result
}

// eraseTraffic serves POST /v1/traffic/clients:erase.
func (s *Server) eraseTraffic(c *call) error {
	var body struct {
		Client map[string]string `field:"client"`
	}
	if err := c.readJSON(&body); err != nil {
		return err
	}
	if len(body.Client) == 0 {
		return problem.InvalidField("client", "", `attributes, as in {"user":"noisy"}`)
	}
	for name := range body.Client {
		if _, err := headgate.ParseAttribute(name); err != nil {
			return problem.InvalidInput("client", err)
		}
	}
	removed, err := s.traffic.Erase(c.r.Context(), c.namespace, body.Client)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(body.Client))
	for name := range body.Client {
		names = append(names, name)
	}
	// The event names the attributes only: what was erased must not stay in the audit log.
	s.recordEvent(c, c.namespace, eventTrafficErase, struct {
		Attributes string `json:"attributes"`
		Entries    int    `json:"entries"`
	}{strings.Join(names, ", "), removed})
	return c.respond(http.StatusOK, struct {
		Erased int `json:"erased"`
	}{removed})
}
