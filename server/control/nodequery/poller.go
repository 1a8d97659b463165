package nodequery

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/nodes"
)

const (
	// maxNodes is the maximum number of nodes to query.
	maxNodes = 1000
	// pollTimeout limits the queries to all nodes.
	pollTimeout = 10 * time.Second
	// silentAfter is the time without a heartbeat after which a node is not queried. Heartbeats may be written to the
	// database only once per WriteInterval.
	silentAfter = 3 * nodes.WriteInterval
)

// AllSilent is the reason why no node has responded if none was queried.
const AllSilent = "the nodes send no heartbeats, and were not queried"

// Reasons why a node was not queried. In messages, they follow "node ID: ".
var (
	// ErrSilent means that the node sends no heartbeats.
	ErrSilent = errors.New("it sends no heartbeats, and was not queried")

	errNoAddress = errors.New("it cannot be queried: its admin listener is off, or on loopback of another host; " +
		"set --admin-addr")
	errTooManyNodes    = fmt.Errorf("not queried: there are more than %d nodes", maxNodes)
	errStoreNoResponse = errors.New("not queried: the other nodes with its store do not respond")
)

// PollerOptions configure a Poller.
type PollerOptions struct {
	Registry *nodes.Registry
	// Local is the node in this process, nil if there is none. LocalID and LocalCounters are ID and Counters in its
	// heartbeats. LocalNamespace is the namespace of its rules.
	Local                                  Node
	LocalID, LocalCounters, LocalNamespace string
	// LocalTraffic responds to queries about the traffic of the node in this process. Default none.
	LocalTraffic TrafficSource
	// Identifier encrypts attributes that may be secret.
	Identifier *identity.Identifier
	// TLS verifies the certificates of nodes. Default the system's settings.
	TLS *tls.Config
	Now func() time.Time
}

// A Poller queries all nodes of a namespace about one client. It is safe for concurrent use.
type Poller struct {
	options PollerOptions
	client  *client
}

// NewPoller returns a Poller.
func NewPoller(o PollerOptions) *Poller {
	return &Poller{options: o, client: newClient(o.Identifier, o.TLS)}
}

// Close closes idle connections.
func (p *Poller) Close() { p.client.http.CloseIdleConnections() }

// Poll queries the nodes of a namespace. client must have the attributes of the query, as normalized by Identifier.
func (p *Poller) Poll(ctx context.Context, namespace string, client rules.Subject, q Query) (*Poll, error) {
	poll, err := p.listNodes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	q.Namespace = namespace
	poll.client = client
	poll.queryAll(ctx, q)
	return poll, nil
}

// listNodes returns a Poll with the nodes of a namespace. The node in this process comes first, then other nodes to
// query, then nodes that cannot be queried. Within each group, the latest heartbeats come first.
func (p *Poller) listNodes(ctx context.Context, namespace string) (*Poll, error) {
	list, err := p.options.Registry.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	poll := &Poll{poller: p}
	addLocal := p.options.Local != nil && p.options.LocalNamespace == namespace
	now := p.options.Now()
	for i := range list {
		n := &PolledNode{Node: &list[i]}
		switch {
		case addLocal && n.ID == p.options.LocalID:
			n.local, addLocal = true, false
		case now.Sub(n.Seen) > silentAfter:
			n.Err = ErrSilent
		case !hasValidAddress(n.Node):
			n.Err = errNoAddress
		}
		poll.Nodes = append(poll.Nodes, n)
	}
	if addLocal { // the local node has sent no heartbeat
		local := &control.Node{
			ID: cmp.Or(p.options.LocalID, "here"), Namespace: namespace, Counters: p.options.LocalCounters,
		}
		poll.Nodes = append(poll.Nodes, &PolledNode{Node: local, local: true})
	}
	slices.SortStableFunc(poll.Nodes, func(a, b *PolledNode) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), b.Seen.Compare(a.Seen))
	})
	if len(poll.Nodes) > maxNodes {
		for _, n := range poll.Nodes[maxNodes:] {
			n.Err = errTooManyNodes
		}
	}
	return poll, nil
}
