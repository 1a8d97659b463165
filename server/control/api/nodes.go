package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodes"
	"github.com/headgate/headgate/server/control/token"
)

// heartbeat serves PUT /v1/nodes/{id}.
func (s *Server) heartbeat(c *call.Call) error {
	n, err := readHeartbeat(c)
	if err != nil {
		return err
	}
	id := c.Args[0]
	n.ID, n.Namespace = cmp.Or(n.ID, id), cmp.Or(n.Namespace, c.Namespace)
	var list []source.Problem
	if n.ID != id || !control.IsName(n.ID) {
		want := "the id of the path: " + control.NameFormat
		list = append(list, source.Problem{Path: "id", Value: rules.Quote(n.ID), Want: want})
	}
	if n.Namespace != c.Namespace {
		want := "the namespace of the call, " + rules.Quote(c.Namespace)
		list = append(list, source.Problem{Path: "namespace", Value: rules.Quote(n.Namespace), Want: want})
	}
	if list = append(list, n.Problems()...); len(list) > 0 {
		return problem.Invalid(list, 0)
	}
	if ok, err := s.nodes.MayRegister(c.R.Context(), c.Namespace, id, c.Caller.ID); err != nil {
		return err
	} else if !ok {
		return problem.New(http.StatusForbidden, "The node %s is registered with a token other than %s. "+
			"Give each node an id of its own, or remove it: headgate nodes delete %s.", id, c.Caller.ID, id)
	}
	n.By = c.Caller.ID
	nodes.ResolveAddress(&n, s.config.From(c.R))
	revision, err := s.nodes.Heartbeat(c.R.Context(), n)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, struct {
		Revision   int64 `json:"revision"`
		IntervalMS int64 `json:"interval_ms"`
	}{revision, s.config.Heartbeat.Milliseconds()})
}

// readHeartbeat reads a heartbeat. It ignores unknown fields, because the node may have a later version.
func readHeartbeat(c *call.Call) (n control.Node, err error) {
	data, err := c.ReadJSONBody()
	if err != nil {
		return n, err
	}
	if _, err := source.Read(call.JSON, data); err != nil { // json.Unmarshal would accept duplicate fields
		return n, err
	}
	err = json.Unmarshal(data, &n)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		err = problem.InvalidField(mismatch.Field, "a "+mismatch.Value, "the type in /openapi.json")
	case err != nil: // syntax and types are valid, so the format of a time is wrong
		err = problem.InvalidField("started", err.Error(), "a time such as 2030-01-31T12:00:00Z")
	}
	return n, err
}

// Heartbeat records a heartbeat of the node in this process, and returns the current revision of its namespace.
func (s *Server) Heartbeat(ctx context.Context, n control.Node) (latest int64, err error) {
	return s.nodes.Heartbeat(ctx, n)
}

// Leave removes the node in this process from the registry, unless another process now uses its ID.
func (s *Server) Leave(ctx context.Context, n control.Node) error { return s.nodes.Leave(ctx, n) }

// listNodes serves GET /v1/nodes.
func (s *Server) listNodes(c *call.Call) error {
	_, revision, err := s.config.DB.Revision(c.R.Context(), c.Namespace)
	if err != nil {
		return err
	}
	namespaces, err := s.readNamespaces(c)
	if err != nil {
		return err
	}
	list := []control.Node{}
	for _, namespace := range namespaces {
		found, err := s.shownNodes(c.R.Context(), namespace)
		if err != nil {
			return err
		}
		list = append(list, found...)
	}
	return c.Respond(http.StatusOK, struct {
		Nodes    []control.Node `json:"nodes"`
		Revision int64          `json:"revision"`
	}{list, revision})
}

// shownNodes returns the nodes of a namespace without what callers must not see.
func (s *Server) shownNodes(ctx context.Context, namespace string) ([]control.Node, error) {
	list, err := s.nodes.List(ctx, namespace)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	_, revision, err := s.config.DB.Revision(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Behind = list[i].Revision < revision
		list[i].QueryKey = "" // secret
		if h := list[i].Health; h != nil && h.Servers != nil {
			health := *h
			health.Servers = nil // GET /v1/stores returns them
			list[i].Health = &health
		}
	}
	return list, nil
}

// deleteNode serves DELETE /v1/nodes/{id}. A node that stops removes itself. People remove nodes that have crashed.
func (s *Server) deleteNode(c *call.Call) error {
	id, isNode := c.Args[0], c.Caller.Role == token.Node
	var started time.Time
	if text := c.Query.Get("started"); text != "" {
		var err error
		if started, err = time.Parse(time.RFC3339, text); err != nil {
			return problem.InvalidQuery("started", text, "the started time of a heartbeat, such as 2027-01-31T18:00:00.5Z")
		}
	}
	if isNode && started.IsZero() {
		want := "the time when the node was started, because another node may use its ID now"
		return problem.InvalidQuery("started", "", want)
	}
	n, err := s.nodes.Get(c.R.Context(), c.Namespace, id)
	switch {
	case err != nil:
		return err
	case n == nil:
		return problem.New(http.StatusNotFound, "There is no node %s in the namespace %s.", rules.Quote(id), c.Namespace)
	case isNode && n.By != c.Caller.ID:
		return problem.New(http.StatusForbidden,
			"The node %s sends its heartbeats with a token other than %s, which may remove only its own nodes.", id, c.Caller.ID)
	case !started.IsZero() && !n.Started.Equal(started):
		return problem.New(http.StatusPreconditionFailed,
			"The node %s was started at %s: another node has this ID now.", id, n.Started.Format(time.RFC3339Nano))
	}
	if err := s.nodes.Delete(c.R.Context(), n); err != nil {
		return err
	}
	if !isNode {
		s.recordEvent(c, c.Namespace, eventNode, nodeEvent{Node: id, Seen: n.Seen})
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
