package follow

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Status is the state of a Follower.
type Status struct {
	// Source and Namespace identify the source.
	Source, Namespace string
	// Revision is the revision of the rules in force, 0 if there are none yet.
	Revision int64
	// Ready reports whether rules are in force, even if they are old.
	Ready bool
	// Rules, Clients and Overrides are the numbers of rules, registered clients and overrides in force.
	Rules, Clients, Overrides int
	// Loaded is when the rules came into force here. Lag is the time from their commit to Loaded, 0 if they were committed
	// before the Follower started.
	Loaded time.Time
	Lag    time.Duration
	// Checked is when the source last confirmed the rules.
	Checked time.Time
	// FromDisk reports whether the rules are from the disk, because the source has not responded yet.
	FromDisk bool
	// Push reports whether the source signals changes, and PushError says why it does not.
	Push      bool
	PushError string
	// UnreachableReason says why the source is unreachable, RefusalReason why its rules cannot be used here, and DiskError
	// why rules cannot be stored on disk or read from it. Each is empty if there is no such problem.
	UnreachableReason, RefusalReason, DiskError string
	// SuspiciousClient describes the last client that Config.CheckClient found suspicious, empty if there is none.
	SuspiciousClient string
	// The numbers of snapshots, deltas, fetches without changes, refused rules, and failed fetches since the start.
	Snapshots, Deltas, Unchanged, Refusals, Failures int64
}

// Status returns the current state.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// updateStatus calls update with the status, then Config.Changed.
func (f *Follower) updateStatus(update func(*Status)) {
	f.mu.Lock()
	update(&f.status)
	status := f.status
	f.mu.Unlock()
	f.config.Changed(status)
}

// setInForce records and logs that f.current has come into force.
func (f *Follower) setInForce(h control.Header, fromDisk bool, level slog.Level) {
	now := f.config.Clock()
	current := f.current
	before := f.Status()
	var lag time.Duration
	if h.Time.After(f.started) { // a change from before the start does not lag
		// In a restored database, the commit may be older than the last check.
		lag = max(0, now.Sub(maxTime(h.Time, before.Checked)))
	}
	f.updateStatus(func(s *Status) {
		s.Revision, s.Ready, s.FromDisk = current.mark.Revision, true, fromDisk
		s.Lag, s.Loaded, s.RefusalReason = lag, now, ""
		s.Rules, s.Clients, s.Overrides = current.set.Len(), current.clients.registry.Len(), current.overlay.count(now)
		if !fromDisk {
			s.Checked, s.UnreachableReason = now, ""
		}
	})
	if before.UnreachableReason != "" && !fromDisk {
		f.log.Info("the rules service is reachable again")
	}
	f.log.Log(context.Background(), level, "rules in force", "source", f.config.Source.Name(),
		"revision", current.mark.Revision, "rules", current.set.Len(), "clients", current.clients.registry.Len(),
		"from_disk", fromDisk, "lag_ms", lag.Milliseconds())
	trySend(f.heartbeatNow)
}

// maxTime returns the later of two times.
func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// setReached records that the source has responded. stillRefused means that it still has the rules that were refused.
func (f *Follower) setReached(stillRefused bool) {
	now := f.config.Clock()
	before := f.Status()
	f.updateStatus(func(s *Status) {
		s.Checked, s.UnreachableReason, s.FromDisk = now, "", false
		if !stillRefused && f.refused == (control.Mark{}) {
			s.RefusalReason = ""
		}
	})
	if before.UnreachableReason != "" {
		f.log.Info("the rules service is reachable again", "revision", before.Revision)
	}
}

func (f *Follower) setRefused(err error) {
	before := f.Status()
	f.updateStatus(func(s *Status) {
		s.Checked, s.UnreachableReason, s.FromDisk = f.config.Clock(), "", false
		s.RefusalReason = err.Error()
		s.Refusals++
	})
	if before.RefusalReason != err.Error() { // do not log the same error again
		f.log.Error("rules refused, keeping the rules in force",
			"revision", before.Revision, "refused", f.refused.Revision, "err", err.Error())
		trySend(f.heartbeatNow)
	}
}

func (f *Follower) setUnreachable(err error) {
	before := f.Status()
	f.updateStatus(func(s *Status) {
		s.UnreachableReason = err.Error()
		s.Failures++
	})
	if before.UnreachableReason == "" && before.Ready {
		f.log.Warn("the rules service is unreachable, the rules in force stay", "source", before.Source,
			"revision", before.Revision, "from_disk", before.FromDisk, "err", err.Error())
	}
}
