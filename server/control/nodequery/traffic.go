package nodequery

import (
	"context"
	"encoding/json"
	"errors"
)

// A TrafficSource answers a query about the traffic of a node, such as a sample of its requests. The rules service and
// its nodes agree on the form of queries and responses; this package only carries them.
type TrafficSource func(query json.RawMessage) (json.RawMessage, error)

var errNoTraffic = errors.New("it does not answer queries about its traffic")

// PollTraffic queries the nodes of a namespace about their traffic. Only nodes that choose selects are queried; the
// others have neither a response nor an error. Each response has its Traffic.
func (p *Poller) PollTraffic(
	ctx context.Context, namespace string, query json.RawMessage, choose func(id, region string) bool,
) (*Poll, error) {
	poll, err := p.listNodes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	var chosen []*PolledNode
	for _, n := range poll.Nodes {
		if choose(n.ID, n.Region) {
			chosen = append(chosen, n)
		}
	}
	poll.Nodes = chosen
	inParallel(chosen, func(n *PolledNode) {
		switch {
		case n.Err != nil: // listNodes has found that it cannot be queried
		case !n.local:
			n.queried = true
			n.Response, n.Err = p.client.query(ctx, n.Node, Query{Namespace: namespace, Traffic: query}, p.options.Now())
			if n.Err == nil && n.Response.Traffic == nil {
				n.Response, n.Err = nil, errNoTraffic
			}
		case p.options.LocalTraffic == nil:
			n.Err = errNoTraffic
		default:
			n.queried = true
			n.Response, n.Err = respondTraffic(p.options.LocalTraffic, n.ID, query)
		}
	})
	return poll, nil
}

func respondTraffic(source TrafficSource, node string, query json.RawMessage) (*Response, error) {
	if source == nil {
		return nil, errNoTraffic
	}
	data, err := source(query)
	if err != nil {
		return nil, err
	}
	return &Response{Node: node, Keys: []Rule{}, Traffic: data}, nil
}
