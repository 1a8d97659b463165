package node

import (
	"github.com/headgate/headgate/server/telemetry"
)

// registerMetrics registers the functions that return the statistics of the node's parts for metrics.
func (n *Node) registerMetrics() error {
	sources := &telemetry.Sources{
		Waiting: n.engine.Waiting, Fleet: n.fleet.Stats, Enforcement: n.enforcement.stats, Overload: n.overload.Stats,
	}
	n.stores.Measure(sources)
	if n.followedRules != nil {
		sources.Follow = n.followedRules.follower.Status
		sources.Database = n.rulesService.databaseStatus
	}
	if n.gateway != nil {
		sources.Gateway = n.gateway.Stats
	}
	n.service.addSources(sources)
	return n.metrics.Register(sources)
}
