package node

import (
	"github.com/headgate/headgate/server/telemetry"
)

// registerMetrics registers the parts of the node whose statistics each scrape reads.
func (n *Node) registerMetrics() error {
	sources := &telemetry.Sources{
		Waiting: n.engine.Waiting, Fleet: n.fleet.Stats, Enforcement: n.enforcement.figures, Overload: n.overload.Stats,
	}
	n.stores.Measure(sources)
	if n.followed != nil {
		sources.Follow = n.followed.follower.Status
		sources.Database = n.control.database
	}
	if n.gateway != nil {
		sources.Gateway = n.gateway.Stats
	}
	n.service.measure(sources)
	return n.metrics.Register(sources)
}
