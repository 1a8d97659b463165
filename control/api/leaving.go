package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// removeNode answers DELETE /v1/nodes/{id}: a node that stops says so, and people remove one that will not come back.
func (s *Server) removeNode(c *call) error {
	var started time.Time
	if given := c.query.Get("started"); given != "" {
		var err error
		if started, err = time.Parse(time.RFC3339, given); err != nil {
			return wrongQuery("started", given, "a time as heartbeats have it, such as 2027-01-31T18:00:00.5Z")
		}
	}
	id, itself := c.args[0], c.who.Role == Node
	if itself && started.IsZero() {
		return wrongQuery("started", "", "when the node was started: another may go by its id by now")
	}
	n, err := s.lastOf(c.r.Context(), c.namespace, id)
	switch {
	case err != nil:
		return err
	case n == nil:
		return fail(http.StatusNotFound, "There is no node %s in the namespace %s.", rules.Quote(id), c.namespace)
	case itself && n.By != c.who.ID:
		return fail(http.StatusForbidden, "The node %s says how it is by another token than %s, which is for no node but its own.", id, c.who.ID)
	case !started.IsZero() && !n.Started.Equal(started):
		return fail(http.StatusPreconditionFailed, "The node %s was started at %s: another goes by this id now.", id, n.Started.Format(time.RFC3339Nano))
	}
	if err := s.forgetNode(c.r.Context(), n); err != nil {
		return err
	}
	if !itself {
		s.record(c, c.namespace, eventNode, nodeEvent{Node: id, Seen: n.Seen})
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Leave takes it that a node stops, as DELETE /v1/nodes/{id} does: it is shown no longer, unless another goes by its id by now.
func (s *Server) Leave(ctx context.Context, n control.Node) error {
	known, err := s.lastOf(ctx, n.Namespace, n.ID)
	if err != nil || known == nil || !known.Started.Equal(n.Started) {
		return err
	}
	return s.forgetNode(ctx, known)
}

// lastOf returns what is known of a node, nil if nothing is.
func (s *Server) lastOf(ctx context.Context, namespace, id string) (*control.Node, error) {
	if !isName(id) {
		return nil, nil
	}
	state, err := s.config.DB.GetState(ctx, nodeBucket+namespace, id)
	if errors.Is(err, control.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var n control.Node
	if err := json.Unmarshal(state.Body, &n); err != nil {
		return nil, fmt.Errorf("read node %s: %w", id, err)
	}
	n = s.beats.latest(namespace+"/"+id, n)
	return &n, nil
}

// forgetNode shows a node no longer. If it says something again, it is shown again.
func (s *Server) forgetNode(ctx context.Context, n *control.Node) error {
	if err := s.config.DB.DeleteState(ctx, nodeBucket+n.Namespace, n.ID); err != nil {
		return fmt.Errorf("forget node %s: %w", n.ID, err)
	}
	s.beats.left(n)
	return nil
}

// left forgets a node that the database has forgotten. Of another that goes by its id by now, the database is told with its next
// heartbeat.
func (b *beats) left(n *control.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := n.Namespace + "/" + n.ID
	switch here, ok := b.nodes[key]; {
	case !ok:
	case here.node.Started.Equal(n.Started):
		b.forget(key)
	default:
		here.kept = time.Time{}
		b.nodes[key] = here
	}
}
