package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// beats are what nodes last said to this server. The database is told of what is new in it, and now and then.
type beats struct {
	mu     sync.Mutex
	nodes  map[string]beat // by namespace and id
	counts map[string]int  // by namespace
	most   int             // there may be; maxNodes if it is 0
}

type beat struct {
	node control.Node
	kept time.Time // when the database was told
}

const (
	// nodeBucket and a namespace are where its nodes are kept: those of others are no reason not to see them.
	nodeBucket = "node/"
	// nodeKept is for how long a node is shown that says nothing any more.
	nodeKept = time.Hour
	// nodeTold is how often the database is told of a node that is as it was.
	nodeTold = time.Minute
	// maxNodes is how many there may be.
	maxNodes = 10_000
)

// heartbeat answers PUT /v1/nodes/{id}.
func (s *Server) heartbeat(c *call) error {
	var n control.Node
	if err := c.readKnown(&n); err != nil {
		return err
	}
	setDefault(&n.ID, c.args[0])
	setDefault(&n.Namespace, c.namespace)
	var errs []fieldError
	if n.ID != c.args[0] || !isName(n.ID) {
		errs = append(errs, fieldError{Path: "id", Value: rules.Quote(n.ID), Want: "the id of the path: " + wantName})
	}
	if n.Namespace != c.namespace {
		errs = append(errs, fieldError{Path: "namespace", Value: rules.Quote(n.Namespace), Want: "that of the call, " + rules.Quote(c.namespace)})
	}
	for _, text := range []struct{ path, value string }{
		{"version", n.Version},
		{"address", n.Address},
		{"region", n.Region},
		{"error", n.Error},
		{"store", n.Store},
		{"counters", n.Counters},
		{"ask_key", n.AskKey},
	} {
		if len(text.value) > rules.MaxText {
			errs = append(errs, fieldError{Path: text.path, Want: "at most 4096 bytes"})
		}
	}
	for _, m := range n.Misfits() {
		errs = append(errs, fieldError{Path: m.Path, Value: m.Value, Want: m.Want})
	}
	if len(errs) > 0 {
		return invalid(errs, 0)
	}
	if err := s.mayBe(c, n.ID); err != nil {
		return err
	}
	n.By = c.who.ID
	reached(&n, s.config.From(c.r))
	revision, err := s.Beat(c.r.Context(), n)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Revision   int64 `json:"revision"`
		IntervalMS int64 `json:"interval_ms"`
	}{revision, s.config.Heartbeat.Milliseconds()})
}

// mayBe refuses to let a token speak for a node that another token has registered, until that one is revoked, the node says that
// it stops, somebody removes it, or it has been silent for nodeKept. The node of a rules service's own process has no token.
func (s *Server) mayBe(c *call, id string) error {
	if s.beats.by(c.namespace+"/"+id) == c.who.ID {
		return nil
	}
	known, err := s.lastOf(c.r.Context(), c.namespace, id)
	if err != nil || known == nil || known.By == c.who.ID {
		return err
	}
	if known.By != "" {
		if token, err := s.get(c.r.Context(), systemNamespace, control.KindToken, known.By); err != nil || token == nil {
			return err
		}
	}
	return fail(http.StatusForbidden, "The node %s is registered by another token than %s. Give each node an id of its own, or remove it: "+
		"headgate nodes delete %s.", id, c.who.ID, id)
}

// by returns the token that a node last spoke with to this server, if any.
func (b *beats) by(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[key].node.By
}

// Beat takes what a node says of itself, as PUT /v1/nodes/{id} does, and returns which revision its namespace has.
func (s *Server) Beat(ctx context.Context, n control.Node) (latest int64, err error) {
	_, latest, err = s.config.DB.Revision(ctx, n.Namespace)
	if err != nil {
		return 0, err
	}
	now := s.config.Now().UTC()
	n.Seen, n.Behind = now, false
	changed, err := s.beats.note(n, now)
	if err != nil || !changed {
		return latest, err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	state := control.State{Bucket: nodeBucket + n.Namespace, ID: n.ID, Body: body, Expires: now.Add(nodeKept)}
	if err := s.config.DB.PutState(ctx, state); err != nil {
		s.beats.untold(n)
		return 0, fmt.Errorf("keep what node %s says: %w", n.ID, err)
	}
	return latest, nil
}

// note remembers what a node says, and reports whether the database is to be told.
func (b *beats) note(n control.Node, now time.Time) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes == nil {
		b.nodes, b.counts = make(map[string]beat), make(map[string]int)
	}
	key := n.Namespace + "/" + n.ID
	before, was := b.nodes[key]
	if most := cmp.Or(b.most, maxNodes); !was && len(b.nodes) >= most {
		for other, at := range b.nodes {
			if now.Sub(at.node.Seen) > nodeKept {
				b.forget(other)
			}
		}
		if len(b.nodes) >= most && !b.makeRoom(n.Namespace) {
			return false, fail(http.StatusServiceUnavailable, "There are %d nodes, which is the most.", most)
		}
	}
	if !was {
		b.counts[n.Namespace]++
	}
	same := was && now.Sub(before.kept) < nodeTold
	if same {
		as := before.node
		as.Seen, as.Fleet = n.Seen, n.Fleet // they are never the same, and a minute old for other instances
		same = as == n
	}
	kept := now
	if same {
		kept = before.kept
	}
	b.nodes[key] = beat{n, kept}
	return !same, nil
}

// makeRoom forgets the longest silent node of the namespace that has the most, for one of a namespace that has fewer: whoever has
// a token for the nodes of one must not shut out those of the others.
func (b *beats) makeRoom(namespace string) bool {
	fullest := namespace
	for other, count := range b.counts {
		if most := b.counts[fullest]; count > most || count == most && other < fullest {
			fullest = other
		}
	}
	if b.counts[fullest] <= b.counts[namespace]+1 { // or two would put each other out in turns
		return false
	}
	silent := ""
	for key, at := range b.nodes {
		if at.node.Namespace == fullest && (silent == "" || at.node.Seen.Before(b.nodes[silent].node.Seen)) {
			silent = key
		}
	}
	b.forget(silent)
	return true
}

// tellAgain has the database told of all nodes with their next heartbeats: what it knew of them is gone.
func (b *beats) tellAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, at := range b.nodes {
		at.kept = time.Time{}
		b.nodes[key] = at
	}
}

// untold has the database told of a node with its next heartbeat, since it was not with this one.
func (b *beats) untold(n control.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := n.Namespace + "/" + n.ID
	if at, ok := b.nodes[key]; ok {
		at.kept = time.Time{}
		b.nodes[key] = at
	}
}

func (b *beats) forget(key string) {
	namespace := b.nodes[key].node.Namespace
	delete(b.nodes, key)
	if b.counts[namespace]--; b.counts[namespace] == 0 {
		delete(b.counts, namespace)
	}
}

// latest returns what is known of a node, by what the database says of it.
func (b *beats) latest(key string, n control.Node) control.Node {
	b.mu.Lock()
	defer b.mu.Unlock()
	if here, ok := b.nodes[key]; ok && here.node.Seen.After(n.Seen) {
		return here.node
	}
	return n
}

// nodes returns what is known of the nodes of a namespace, in the order of their ids.
func (s *Server) nodes(ctx context.Context, namespace string) ([]control.Node, error) {
	states, err := s.config.DB.States(ctx, nodeBucket+namespace, maxNodes)
	if err != nil {
		return nil, err
	}
	list := make([]control.Node, 0, len(states))
	for i := range states {
		var n control.Node
		if err := json.Unmarshal(states[i].Body, &n); err != nil {
			return nil, fmt.Errorf("read node %s: %w", states[i].ID, err)
		}
		list = append(list, s.beats.latest(namespace+"/"+states[i].ID, n))
	}
	slices.SortFunc(list, func(a, b control.Node) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// listNodes answers GET /v1/nodes.
func (s *Server) listNodes(c *call) error {
	_, revision, err := s.config.DB.Revision(c.r.Context(), c.namespace)
	if err != nil {
		return err
	}
	list, err := s.nodes(c.r.Context(), c.namespace)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Behind = list[i].Revision < revision
		list[i].AskKey = "" // it is between the node and us
	}
	return c.answer(http.StatusOK, struct {
		Nodes    []control.Node `json:"nodes"`
		Revision int64          `json:"revision"`
	}{list, revision})
}

// reached makes the address of a node one by which others reach it: who listens on all of its own is where the heartbeat came
// from. One that listens on loopback can be asked from its own host alone.
func reached(n *control.Node, from netip.Addr) {
	u, err := url.Parse(n.Address)
	if err != nil || n.Address == "" {
		return
	}
	at, err := netip.ParseAddr(u.Hostname())
	switch {
	case err != nil && u.Hostname() != "localhost", !from.IsValid():
	case err == nil && at.IsUnspecified():
		u.Host = net.JoinHostPort(from.String(), u.Port())
		n.Address = u.String()
	case (err != nil || at.IsLoopback()) && !from.IsLoopback():
		n.AskKey = ""
	}
}
