package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/telemetry"
)

// followedRules applies the rules of a rules service, in this process or remote, to the engine.
type followedRules struct {
	follower     *follow.Follower           // nil until it is opened
	mirror       atomic.Pointer[fileMirror] // nil unless the database is a copy of a rules file
	enforcement  *enforcement
	storesShared bool
	metrics      *telemetry.Metrics
	revision     atomic.Uint64

	mu         sync.Mutex
	lastStatus follow.Status
}

// apply puts a rule set in force.
func (f *followedRules) apply(set *match.Set) error {
	effective, err := f.enforcement.apply(set)
	if err != nil {
		return err
	}
	f.metrics.SetRules(telemetry.RuleLoad{
		Set: effective, Shared: f.storesShared, Revision: f.revision.Load(),
		Loaded: time.Now().UTC(),
	})
	return nil
}

// onStatus records the new status of the follower.
func (f *followedRules) onStatus(status follow.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	previous := f.lastStatus
	f.lastStatus = status
	if status.Revision != previous.Revision || status.Loaded != previous.Loaded {
		f.revision.Store(uint64(status.Revision))
		f.metrics.RulesAdvanced(uint64(status.Revision), status.Loaded)
	}
	if status.Refusals > previous.Refusals {
		f.metrics.RulesRefused()
	}
}

// reload copies the rules file, if there is one, to the database, and makes the follower poll now.
func (f *followedRules) reload() {
	if m := f.mirror.Load(); m != nil {
		m.reload()
	}
	f.follower.Refresh()
}

// ready reports whether rules have been loaded.
func (f *followedRules) ready() bool { return f.follower.Status().Ready }

// status describes the rules in force.
func (f *followedRules) status() telemetry.RulesStatus {
	s := f.follower.Status()
	result := telemetry.RulesStatus{
		Source: s.Source, Revision: uint64(s.Revision), Count: s.Rules, Loaded: s.Loaded.UTC(), Error: s.RefusalReason,
		Follow: &telemetry.FollowStatus{
			Namespace: s.Namespace, Clients: s.Clients, Overrides: s.Overrides, Checked: s.Checked.UTC(),
			LagMS:    s.Lag.Milliseconds(),
			FromDisk: s.FromDisk, Push: s.Push, Unreachable: s.UnreachableReason, DiskError: s.DiskError, SuspiciousClient: s.SuspiciousClient,
		},
	}
	if m := f.mirror.Load(); m != nil && result.Error == "" {
		result.Error = m.lastError()
	}
	return result
}

// tryOpenDatabase opens the database and its API. It returns false if that fails.
func (n *Node) tryOpenDatabase(ctx context.Context) bool {
	s := n.rulesService
	if err := n.openDatabase(ctx); err != nil {
		s.deferred.Failed(err)
		return false
	}
	s.deferred.Opened(follow.Database(s.db, s.deferred.Namespace(), s.api.Load()))
	return true
}

// retryDatabase tries to open the database until that succeeds. It returns false if ctx ends first.
func (n *Node) retryDatabase(ctx context.Context) bool {
	const maxPause = 15 * time.Second
	for pause := time.Second; n.rulesService.deferred.Err() != nil; pause = min(2*pause, maxPause) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !n.tryOpenDatabase(ctx) {
			// Log an error that another attempt does not fix. The follower logs others.
			if err := n.rulesService.deferred.Err(); errors.Is(err, control.ErrNewerSchema) {
				n.log.Error("database not opened", "err", err.Error())
			}
			continue
		}
		n.log.Info("database opened", "db", n.rulesService.db.Name())
		n.printFirstToken()
		n.followedRules.follower.Refresh()
	}
	return true
}
