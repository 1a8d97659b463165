package node

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/api"
	"github.com/headgate/headgate/control/follow"
	"github.com/headgate/headgate/telemetry"
)

// describe says what the rules service should know of this node.
func (n *Node) describe() control.Node {
	made := control.Node{
		ID: n.id, Version: n.options.Version, Region: n.config.Region, Store: "ok", Started: n.started,
	}
	if n.admin != nil {
		made.Address = n.adminURL()
	}
	if n.control.answers != nil {
		made.AskKey = n.control.answers.Key()
	}
	made.Counters = n.config.Counters()
	made.Fleet = n.company.shown()
	if status, degraded := n.stores.status(); degraded {
		made.Store = status.Kind + " is away"
		for _, shard := range status.Shards {
			if !shard.Up && shard.Error != "" {
				made.Store = status.Kind + ": " + shard.Error
			}
		}
	}
	return made
}

// adminURL returns where others reach the admin listener, as far as this node knows: that of one that listens on all addresses the
// rules service finds out by where heartbeats come from, unless it is in this process.
func (n *Node) adminURL() string {
	if given := n.config.RulesService.Address; given != "" {
		return given
	}
	if n.admin.listener.Addr().Network() == "unix" {
		return "" // only this host reaches it
	}
	scheme, _, _ := strings.Cut(n.admin.url(), "://")
	host, port, err := net.SplitHostPort(n.admin.addr())
	if err != nil {
		return n.admin.url()
	}
	if ip := net.ParseIP(host); n.config.Mode() != config.FromControl && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil && name != "" {
			host = name
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// shown is what others are told of how limits are shared, nil if there is nobody to share with.
func (k *company) shown() *control.FleetFigures {
	f := k.figures()
	if k.members == nil && f.Lease == nil && len(f.Sync) == 0 {
		return nil
	}
	made := &control.FleetFigures{Live: int64(f.Live), Known: int64(f.Known)}
	for i := range f.Sync {
		made.Sync = append(made.Sync, syncFigures(&f.Sync[i]))
	}
	if l := f.Lease; l != nil {
		made.Leases = &control.LeaseFigures{
			Keys: l.Keys, Calls: l.Calls, Failed: l.Failures, Granted: l.Granted, Returned: l.Returned, Expired: l.Expired,
		}
	}
	made.Clamp()
	return made
}

func syncFigures(n *telemetry.Sync) control.SyncFigures {
	return control.SyncFigures{
		Mode: n.Mode, Up: n.Up, LagMS: millis(n.Lag), LagMaxMS: millis(n.LagMax), Over: n.Over, OverMax: n.OverMax,
		Applied: n.Applied, Lost: n.Lost, ClockAheadMS: millis(n.Ahead), ClocksOff: n.ClocksOff, Keys: n.Keys, Waiting: n.Waiting,
		Sent: n.Sent, Received: n.Received, Failed: n.Failures, Refused: n.Refused,
	}
}

// millis returns a time in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// showSelf has the API of a node whose rules are a file's show that node: others are told by who follows a database.
func (n *Node) showSelf(ctx context.Context) {
	server := n.control.api.Load()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := n.beatSelf(ctx, server); err != nil && ctx.Err() == nil {
			n.log.Debug("the API does not show this node", "err", err.Error())
		}
		timer.Reset(follow.DefaultHeartbeat)
	}
}

// beatSelf says how this node is. Its rules are always those that the API shows.
func (n *Node) beatSelf(ctx context.Context, server *api.Server) error {
	ctx, cancel := context.WithTimeout(ctx, selfTimeout)
	defer cancel()
	me := n.describe()
	me.Namespace, me.Error = n.config.ControlNamespace(), n.rules.current().Error
	var err error
	if _, me.Revision, err = n.control.db.Revision(ctx, me.Namespace); err == nil {
		_, err = server.Heartbeat(ctx, me)
	}
	return err
}

// selfTimeout is how long a database in this process may take.
const selfTimeout = 5 * time.Second
