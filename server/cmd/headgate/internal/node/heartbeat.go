package node

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/healthmeter"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/follow"
)

// describe returns the content of this node's heartbeats, without the fields that the follower sets.
func (n *Node) describe() control.Node {
	result := control.Node{
		ID: n.id, Version: n.options.Version, Region: n.config.Region, Store: "ok", Started: n.started,
	}
	if n.admin != nil {
		result.Address = n.adminURL()
	}
	if n.rulesService.keyQueries != nil {
		result.QueryKey = n.rulesService.keyQueries.Key()
	}
	result.Counters = n.config.SharedCountersID()
	result.EnforcementOff = n.enforcement.ownSuspensions()
	result.Fleet = n.fleet.Report()
	result.Health = n.healthStats(time.Now())
	if status, degraded := n.stores.Status(); degraded {
		result.Store = status.Kind + " is unreachable"
		for _, shard := range status.Shards {
			if shard.Replaced {
				continue
			}
			if !shard.Up && shard.Error != "" {
				result.Store = status.Kind + ": " + shard.Error
			}
			failed := !shard.Up || shard.Error != ""
			if failed && (result.StoreSince.IsZero() || shard.Since.Before(result.StoreSince)) {
				result.StoreSince = shard.Since
			}
		}
	}
	return result
}

// adminURL returns the URL at which other hosts reach the admin listener. If the listener is on all addresses, the URL
// has an unspecified host, which a remote rules service replaces by the source address of heartbeats. Without a remote
// rules service, the URL has the name of this host instead.
func (n *Node) adminURL() string {
	if address := n.config.RulesService.Address; address != "" {
		return address
	}
	if n.admin.listener.Addr().Network() == "unix" {
		return "" // other hosts cannot reach it
	}
	scheme, _, _ := strings.Cut(n.admin.url(), "://")
	host, port, err := net.SplitHostPort(n.admin.addr())
	if err != nil {
		return n.admin.url()
	}
	if ip := net.ParseIP(host); n.config.RulesSource() != config.FromControl && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil && name != "" {
			host = name
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

const (
	// changeCheckInterval is the interval at which reportChanges checks the state of the node.
	changeCheckInterval = 500 * time.Millisecond
	// While a store fails, a heartbeat with the latest rates is sent every ratesInterval for ratesTime after each change.
	ratesInterval = 2 * time.Second
	ratesTime     = 10 * time.Second
)

// reportedState is the state of a node that operators must see before the next regular heartbeat.
type reportedState struct {
	down        []string // shards and servers of the store
	suspensions []control.Suspension
	unlimited   healthmeter.Phase
}

func (n *Node) reportedState(now time.Time) reportedState {
	_, degraded := n.stores.Status()
	return reportedState{
		down: n.stores.Down(), suspensions: n.enforcement.ownSuspensions(),
		unlimited: n.health.Observe(n.metrics, degraded, now),
	}
}

func (s *reportedState) equal(other *reportedState) bool {
	return slices.Equal(s.down, other.down) && slices.Equal(s.suspensions, other.suspensions) && s.unlimited == other.unlimited
}

// reportChanges sends a heartbeat when a shard of the store becomes unreachable or reachable again, when requests begin
// or cease to pass without a limit, and when a switch of enforcement is made on this node.
func (n *Node) reportChanges(ctx context.Context) {
	tick := time.NewTicker(changeCheckInterval)
	defer tick.Stop()
	var (
		reported      reportedState
		changed, sent time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		current := n.reportedState(now)
		fails := len(current.down) > 0 || !current.unlimited.Since.IsZero()
		switch {
		case !current.equal(&reported):
			changed = now
		case !fails || now.Sub(changed) > ratesTime || now.Sub(sent) < ratesInterval:
			continue
		}
		reported, sent = current, now
		if n.followedRules != nil {
			n.followedRules.follower.Report()
		} else if server := n.rulesService.api.Load(); server != nil {
			if err := n.heartbeat(ctx, server); err != nil && ctx.Err() == nil {
				n.log.Debug("heartbeat to the own API failed", "err", err.Error())
			}
		}
	}
}

// heartbeatLoop sends heartbeats of a node with a rules file to its own API. In other nodes, the follower sends them.
func (n *Node) heartbeatLoop(ctx context.Context) {
	server := n.rulesService.api.Load()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := n.heartbeat(ctx, server); err != nil && ctx.Err() == nil {
			n.log.Debug("heartbeat to the own API failed", "err", err.Error())
		}
		timer.Reset(follow.DefaultHeartbeat)
	}
}

// heartbeat sends one heartbeat to the node's own API. Its revision is the current one of the database, which is a copy
// of the file.
func (n *Node) heartbeat(ctx context.Context, server *api.Server) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	self := n.describe()
	self.Namespace, self.Error = n.config.ControlNamespace(), n.fileRules.status().Error
	var err error
	if _, self.Revision, err = n.rulesService.db.Revision(ctx, self.Namespace); err == nil {
		_, err = server.Heartbeat(ctx, self)
	}
	return err
}

// heartbeatTimeout is the timeout of a heartbeat to the API in this process.
const heartbeatTimeout = 5 * time.Second
