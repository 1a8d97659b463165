// Package trafficapi serves the API calls about traffic: statistics, the latest decisions, and simulations of other
// limits.
package trafficapi

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/fleettraffic"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/nodes"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Options configure Handlers. All but Local and NodeHistory are required.
type Options struct {
	Store      *fleettraffic.Store
	DB         control.DB
	Nodes      *nodes.Registry
	Poller     *nodequery.Poller
	Editor     *edit.Editor
	Identifier *identity.Identifier
	Namer      *traffic.Namer
	Now        func() time.Time
	// Local is the node in this process. It has the rules of LocalNamespace. Default none.
	Local          nodequery.Node
	LocalNamespace string
	// NodeHistory are the statistics of Local, which are shown in place of those of Store. Default none.
	NodeHistory *traffic.History
	// MaxStreams is the maximum number of concurrent live streams.
	MaxStreams int
	// TokenCheckInterval returns the time between two checks of a live stream's token.
	TokenCheckInterval func() time.Duration
	// TokenValid reports whether the token of a live stream is still valid.
	TokenValid func(*call.Call) bool
	// StreamContext ends when live streams must end.
	StreamContext context.Context
	// RecordEvent adds an event to the audit log.
	RecordEvent func(c *call.Call, namespace, name string, event any)
}

// Handlers serve the calls about traffic. They are safe for concurrent use.
type Handlers struct {
	options     Options
	liveStreams atomic.Int64
}

// New returns Handlers.
func New(o Options) *Handlers { return &Handlers{options: o} }

// poll sends a query to the nodes of the call's namespace for which includeNode returns true, or to all if includeNode
// is nil. It returns the responses of the nodes that responded.
func (h *Handlers) poll(
	c *call.Call, q traffic.NodeQuery, includeNode func(id, region string) bool,
) (*nodequery.Poll, []traffic.NodeResponse, error) {
	query, err := json.Marshal(q)
	if err != nil {
		return nil, nil, err
	}
	if includeNode == nil {
		includeNode = func(string, string) bool { return true }
	}
	c.SetDeadlines(call.BodyTime, 2*call.BodyTime)
	poll, err := h.options.Poller.PollTraffic(c.R.Context(), c.Namespace, query, includeNode)
	if err != nil {
		return nil, nil, err
	}
	var list []traffic.NodeResponse
	for _, n := range poll.Responded() {
		var response traffic.NodeResponse
		if err := json.Unmarshal(n.Response.Traffic, &response); err != nil {
			n.Response, n.Err = nil, err // count the node as failed
			continue
		}
		for i := range response.Decisions {
			response.Decisions[i].Node = n.ID // do not trust the node to report its own ID
		}
		list = append(list, response)
	}
	return poll, list, nil
}
