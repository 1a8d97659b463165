package nodequery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
)

// A Poll is the result of querying the nodes of a namespace.
type Poll struct {
	Nodes []*PolledNode

	poller *Poller
	client rules.Subject
}

// A PolledNode is a node of a Poll.
type PolledNode struct {
	*control.Node
	Response *Response // nil if there is none
	Err      error     // why there is no response; nil if another node with the same store has responded

	local   bool // the node is in this process
	queried bool // a query was sent to the node
}

// rank is the order of the nodes of a poll, lowest first: the node in this process, other nodes to query, and nodes that
// are not queried.
func (n *PolledNode) rank() int {
	switch {
	case n.local:
		return 0
	case n.Err == nil:
		return 1
	}
	return 2
}

// Responded returns the nodes that responded.
func (p *Poll) Responded() []*PolledNode {
	return slices.DeleteFunc(slices.Clone(p.Nodes), func(n *PolledNode) bool { return n.Response == nil })
}

// HasError reports whether a node failed with an error.
func (p *Poll) HasError(err error) bool {
	return slices.ContainsFunc(p.Nodes, func(n *PolledNode) bool { return errors.Is(n.Err, err) })
}

// queryAll queries all nodes. Among nodes that share a store, one responds for all, and the others are queried only
// about rules that each node counts in its own memory.
func (p *Poll) queryAll(ctx context.Context, q Query) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	type localQuery struct {
		node  *PolledNode
		query Query
	}
	var mu sync.Mutex
	var local []localQuery
	inParallel(p.byStore(), func(sharing []*PolledNode) {
		localRules, ok := p.queryStore(ctx, sharing, q)
		mu.Lock()
		defer mu.Unlock()
		for _, n := range sharing {
			switch {
			case n.queried:
			case !ok:
				n.Err = errStoreNoResponse
			case len(localRules) > 0:
				query := q
				query.Rules = localRules
				local = append(local, localQuery{n, query})
			}
		}
	})
	inParallel(local, func(l localQuery) { p.query(ctx, l.node, l.query) })
}

// byStore groups the nodes to query by the store that they share. A node that counts in memory is its own group.
func (p *Poll) byStore() [][]*PolledNode {
	var groups [][]*PolledNode
	index := map[string]int{}
	for _, n := range p.Nodes {
		if n.Err != nil {
			continue
		}
		i, known := index[n.Counters]
		if n.Counters == "" || !known {
			index[n.Counters] = len(groups)
			groups = append(groups, []*PolledNode{n})
			continue
		}
		groups[i] = append(groups[i], n)
	}
	return groups
}

// maxStoreTries is the maximum number of nodes with the same store to try until one responds.
const maxStoreTries = 3

// queryStore queries one of the nodes that share a store. It returns the IDs of the rules that each node counts in its
// own memory. It returns false if no node responds. It does not retry a failed reset on another node, because the first
// node may have executed it.
func (p *Poll) queryStore(ctx context.Context, sharing []*PolledNode, q Query) (localRules []string, ok bool) {
	if len(sharing) == 1 {
		p.query(ctx, sharing[0], q)
		return nil, true
	}
	readOnly := q
	readOnly.Reset = false
	for _, n := range sharing[:min(len(sharing), maxStoreTries)] {
		if p.query(ctx, n, readOnly); n.Err != nil {
			continue
		}
		for _, k := range n.Response.Keys {
			if k.Mode != rules.Exact.String() && !slices.Contains(localRules, k.ID) {
				localRules = append(localRules, k.ID)
			}
		}
		if q.Reset {
			p.query(ctx, n, q)
		}
		return localRules, true
	}
	return nil, false
}

// query queries one node.
func (p *Poll) query(ctx context.Context, n *PolledNode, q Query) {
	n.queried = true
	options := &p.poller.options
	if n.local {
		q.Node = n.ID
		n.Response, n.Err = respond(ctx, options.Local, p.client, &q)
		return
	}
	n.Response, n.Err = p.poller.client.query(ctx, n.Node, q, options.Now())
}

// inParallel calls do for each element, in at most 32 goroutines, and waits for all of them.
func inParallel[T any](list []T, do func(T)) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 32)
	for _, element := range list {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			do(element)
		})
	}
	group.Wait()
}

// A NodeStatus is the result of one node in a response of the API.
type NodeStatus struct {
	ID       string `json:"id"`
	Region   string `json:"region,omitempty"`
	Address  string `json:"address,omitempty"`
	Counters string `json:"counters,omitempty"`
	State    string `json:"state"` // StateAnswered, or one of the others
	Error    string `json:"error,omitempty"`
}

// The states of a NodeStatus.
const (
	StateAnswered = "answered"
	StateShared   = "shared" // another node with the same store responded
	StateFailed   = "failed"
	StateSilent   = "silent"
)

func (n *PolledNode) status() NodeStatus {
	s := NodeStatus{ID: n.ID, Region: n.Region, Address: n.Address, Counters: n.Counters}
	switch {
	case n.Response != nil && n.Response.Error != "":
		s.State, s.Error = StateFailed, n.Response.Error
	case n.Response != nil:
		s.State = StateAnswered
	case errors.Is(n.Err, ErrSilent):
		s.State, s.Error = StateSilent, ErrSilent.Error()+"; last heartbeat at "+n.Seen.UTC().Format(time.RFC3339)
	case n.Err != nil:
		s.State, s.Error = StateFailed, n.Err.Error()
	default:
		s.State = StateShared
	}
	return s
}

// Statuses returns the results of all nodes, sorted by ID, and a text with the failures. Silent nodes are not failures.
func (p *Poll) Statuses() (list []NodeStatus, failures string) {
	list = make([]NodeStatus, len(p.Nodes))
	var failed []string
	for i, n := range p.Nodes {
		if list[i] = n.status(); list[i].State == StateFailed {
			failed = append(failed, "node "+n.ID+": "+list[i].Error)
		}
	}
	slices.SortFunc(list, func(a, b NodeStatus) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(failed)
	const maxShown = 10
	if len(failed) > maxShown {
		failed = append(failed[:maxShown], fmt.Sprintf("and %d more", len(failed)-maxShown))
	}
	return list, strings.Join(failed, "; ")
}
