package follow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

const (
	// minHeartbeat and maxHeartbeat are the bounds of the interval that the service may request. heartbeatTimeout is
	// the timeout of one heartbeat.
	minHeartbeat     = time.Second
	maxHeartbeat     = 5 * time.Minute
	heartbeatTimeout = 5 * time.Second
	// leaveTimeout limits the last messages of a stopping node.
	leaveTimeout = time.Second
	// maxReportDelay is the maximum of the random delay before a node reports new rules. Without the delay, all nodes
	// would report at once.
	maxReportDelay = 300 * time.Millisecond
)

// runHeartbeats sends heartbeats at intervals and soon after a rule change. When ctx ends, it reports to the service
// that the node is stopping. It lets a heartbeat in progress finish first, so that the heartbeat does not arrive later.
func (f *Follower) runHeartbeats(ctx context.Context) {
	sendCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// sendCtx ends leaveTimeout after ctx, so that the last messages can be sent.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(leaveTimeout, cancel) })()
	f.heartbeatLoop(ctx, sendCtx)
	if err := f.config.Source.Leave(sendCtx, f.Node()); err != nil {
		f.log.Debug("could not report to the rules service that this node stops", "err", err.Error())
	}
}

// heartbeatLoop sends heartbeats until ctx ends, each with sendCtx.
func (f *Follower) heartbeatLoop(ctx, sendCtx context.Context) {
	next := time.Duration(0)
	var refused string
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-f.heartbeatNow:
			if !waitFor(ctx, rand.N(maxReportDelay)) {
				return
			}
		case <-timer.C:
		}
		interval := f.sendHeartbeat(sendCtx, &refused)
		next = interval*9/10 + rand.N(interval/5)
	}
}

// waitFor waits for d. It returns false if ctx ends first.
func waitFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sendHeartbeat sends one heartbeat and returns the time until the next. refused is the last refusal by the service
// that was logged. The same refusal is not logged again.
func (f *Follower) sendHeartbeat(ctx context.Context, refused *string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	latest, interval, err := f.config.Source.Heartbeat(ctx, f.Node())
	if err != nil {
		level := slog.LevelDebug // fetch logs an unreachable service with a higher level
		var response *remote.Error
		if errors.As(err, &response) && response.Status/100 == 4 && err.Error() != *refused {
			level, *refused = slog.LevelWarn, err.Error()
		}
		f.log.Log(ctx, level, "heartbeat failed", "err", err.Error())
		return DefaultHeartbeat
	}
	*refused = ""
	if latest > f.Status().Revision {
		f.Refresh()
	}
	if interval == 0 {
		return DefaultHeartbeat
	}
	return min(max(interval, minHeartbeat), maxHeartbeat)
}

// Node returns the content of a heartbeat.
func (f *Follower) Node() control.Node {
	n := f.config.Node()
	s := f.Status()
	n.Namespace, n.Revision, n.LagMS, n.FromDisk = s.Namespace, s.Revision, s.Lag.Milliseconds(), s.FromDisk
	n.Error = s.RefusalReason
	return n
}
