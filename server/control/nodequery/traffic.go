package nodequery

import (
	"context"
	"encoding/json"
	"errors"
)

// A TrafficSource responds to a query about the traffic of a node, such as a sample of its requests. Package traffic
// defines the format of queries and responses.
type TrafficSource func(query json.RawMessage) (json.RawMessage, error)

var errNoTraffic = errors.New("it has no traffic statistics")

// PollTraffic queries nodes of a namespace about their traffic. The Poll has only the nodes for which include returns
// true. Each response has the field Traffic.
func (p *Poller) PollTraffic(
	ctx context.Context, namespace string, query json.RawMessage, include func(id, region string) bool,
) (*Poll, error) {
	poll, err := p.listNodes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	var included []*PolledNode
	for _, n := range poll.Nodes {
		if include(n.ID, n.Region) {
			included = append(included, n)
		}
	}
	poll.Nodes = included
	inParallel(included, func(n *PolledNode) {
		switch {
		case n.Err != nil: // according to listNodes, the node cannot be queried
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
