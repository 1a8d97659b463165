package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/alerts"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/webhook"
)

// newAlerts returns the service that evaluates alerts.
func (s *Server) newAlerts() *alerts.Service {
	c := &s.config
	return alerts.NewService(alerts.Options{
		DB: c.DB, Namespaces: s.nodes.Namespaces, Nodes: s.nodes.List, Traffic: s.traffic.History,
		Notify: s.notifyAlert, Now: c.Now, Logger: c.Logger,
	})
}

// notifyAlert notifies webhooks of an alert that fired or resolved.
func (s *Server) notifyAlert(ctx context.Context, namespace string, a *alerts.Alert) error {
	event := webhook.EventAlertFired
	if a.State == alerts.Resolved {
		event = webhook.EventAlertResolved
	}
	return s.webhooks.SendAlert(ctx, namespace, event, a)
}

// listAlerts serves GET /v1/alerts.
func (s *Server) listAlerts(c *call.Call) error {
	state := c.Query.Get("state")
	states := []alerts.State{"", alerts.Pending, alerts.Firing, alerts.Resolving, alerts.Resolved}
	if !slices.Contains(states, alerts.State(state)) {
		return problem.InvalidQuery("state", state, "pending, firing, resolving or resolved")
	}
	namespaces, err := s.readNamespaces(c)
	if err != nil {
		return err
	}
	response := alerts.Listing{Alerts: []alerts.Alert{}}
	for _, namespace := range namespaces {
		list, fallback, err := s.alerts.Live(c.R.Context(), namespace)
		if err != nil {
			return err
		}
		if fallback != nil {
			response.Fallbacks = append(response.Fallbacks, fallback.Shortened())
		}
		for i := range list {
			list[i].Namespace = namespace
			if list[i].State == alerts.Firing {
				response.Firing++
			}
			if state == "" || string(list[i].State) == state {
				response.Alerts = append(response.Alerts, list[i])
			}
		}
	}
	alerts.Sort(response.Alerts)
	return c.Respond(http.StatusOK, response)
}

// A storeServer is a Redis server in a response.
type storeServer struct {
	control.ServerStats
	// Hot means that it has far more traffic than the other primaries.
	Hot bool `json:"hot"`
	// Nodes are the nodes that use this server, and NodeCount is their number.
	Nodes     []string `json:"nodes,omitempty"`
	NodeCount int      `json:"node_count"`
	// OpenOn are the nodes whose circuit for the shard of this server is open.
	OpenOn []string `json:"open_on,omitempty"`
}

// maxStoreNodes is the maximum length of the lists of nodes in a storeServer.
const maxStoreNodes = 20

// listStores serves GET /v1/stores.
func (s *Server) listStores(c *call.Call) error {
	nodes, err := s.nodesWithServers(c)
	if err != nil {
		return err
	}
	now := s.config.Now()
	open := map[string]map[string]bool{} // whether the circuit is open, by shard and node
	for i := range nodes {
		if h := nodes[i].Health; h != nil && now.Sub(nodes[i].Seen) < time.Minute {
			for _, shard := range h.OpenShards {
				if open[shard] == nil {
					open[shard] = map[string]bool{}
				}
				open[shard][nodes[i].ID] = true
			}
		}
	}
	stats := alerts.Servers(nodes, now)
	primaries, total := 0, int64(0)
	for i := range stats {
		if f := &stats[i]; f.Up && f.Role == control.RolePrimary {
			primaries++
			total += f.OpsPerSecond
		}
	}
	list := make([]storeServer, len(stats))
	for i := range stats {
		f := &stats[i]
		var openOn []string
		for _, id := range f.Nodes {
			if open[f.Shard][id] {
				openOn = append(openOn, id)
			}
		}
		list[i] = storeServer{
			f.ServerStats, f.IsHot(primaries, total), f.Nodes[:min(len(f.Nodes), maxStoreNodes)], len(f.Nodes),
			openOn[:min(len(openOn), maxStoreNodes)],
		}
	}
	return c.Respond(http.StatusOK, struct {
		Servers []storeServer `json:"servers"`
	}{list})
}

// nodesWithServers returns the nodes that a call about stores reads. Those of namespaces other than that of the call
// have the namespace in their IDs, because the IDs are unique in a namespace only.
func (s *Server) nodesWithServers(c *call.Call) (list []control.Node, err error) {
	namespaces, err := s.readNamespaces(c)
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		found, err := s.nodes.List(c.R.Context(), namespace)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if namespace != c.Namespace {
				found[i].ID = namespace + "/" + found[i].ID
			}
		}
		list = append(list, found...)
	}
	return list, nil
}
