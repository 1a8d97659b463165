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
	// Ready reports whether rules are in force, however old.
	Ready bool
	// Rules and Clients are counts, and Overrides is the number of overrides in force.
	Rules, Clients, Overrides int
	// Loaded is when the rules came into force here, and Lag how long after their commit; 0 if they were committed
	// before the Follower started.
	Loaded time.Time
	Lag    time.Duration
	// Checked is when the source last confirmed the rules.
	Checked time.Time
	// FromDisk reports that the rules are from the file, because the source was not reached yet.
	FromDisk bool
	// Push reports that the source signals changes, and PushError why it does not.
	Push      bool
	PushError string
	// Away is why the source is unreachable, Refused why its rules cannot be used here, Disk why rules are not stored.
	Away, Refused, Disk string
	// Doubt is the last suspicious client, empty if there is none.
	Doubt string
	// Counts of snapshots, changes, fetches without changes, refused rules, and failed fetches.
	Whole, Deltas, Unchanged, Refusals, Failures int64
}

// Status returns the current state.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// change changes the status and calls Config.Changed.
func (f *Follower) change(do func(*Status)) {
	f.mu.Lock()
	do(&f.status)
	now := f.status
	f.mu.Unlock()
	f.config.Changed(now)
}

// setInForce records and logs that f.current has come into force.
func (f *Follower) setInForce(h control.Header, fromDisk bool, level slog.Level) {
	now := f.config.Clock()
	held := f.current
	was := f.Status()
	var lag time.Duration
	if h.Time.After(f.started) { // older commits are not late: nobody waited for them here
		lag = max(0, now.Sub(maxTime(h.Time, was.Checked)))
	}
	f.change(func(s *Status) {
		s.Revision, s.Ready, s.FromDisk, s.Lag, s.Loaded, s.Refused = held.mark.Revision, true, fromDisk, lag, now, ""
		s.Rules, s.Clients, s.Overrides = held.set.Len(), held.clients.registry.Len(), held.overlay.count(now)
		if !fromDisk {
			s.Checked, s.Away = now, ""
		}
	})
	if was.Away != "" && !fromDisk {
		f.log.Info("the rules service is reachable again")
	}
	f.log.Log(context.Background(), level, "rules in force", "source", f.config.Source.Name(),
		"revision", held.mark.Revision, "rules", held.set.Len(), "clients", held.clients.registry.Len(),
		"from_disk", fromDisk, "lag_ms", lag.Milliseconds())
	trySend(f.heartbeatNow)
}

// maxTime returns the later of two times. Revisions of a restored database may be older than the last check.
func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// setReached records that the source has responded, and whether it still has the refused rules.
func (f *Follower) setReached(same bool) {
	now := f.config.Clock()
	was := f.Status()
	f.change(func(s *Status) {
		s.Checked, s.Away, s.FromDisk = now, "", false
		if !same && f.refused == (control.Mark{}) {
			s.Refused = ""
		}
	})
	if was.Away != "" {
		f.log.Info("the rules service is reachable again", "revision", was.Revision)
	}
}

func (f *Follower) setRefused(err error) {
	was := f.Status()
	f.change(func(s *Status) {
		s.Checked, s.Away, s.FromDisk = f.config.Clock(), "", false
		s.Refused = err.Error()
		s.Refusals++
	})
	if was.Refused != err.Error() { // do not log the same error again
		f.log.Error("rules refused, those in force stay", "revision", was.Revision, "refused", f.refused.Revision, "err",
			err.Error())
		trySend(f.heartbeatNow)
	}
}

func (f *Follower) setUnreachable(err error) {
	was := f.Status()
	f.change(func(s *Status) {
		s.Away = err.Error()
		s.Failures++
	})
	if was.Away == "" && was.Ready {
		f.log.Warn("the rules service is unreachable, the rules in force stay", "source", was.Source, "revision",
			was.Revision,
			"from_disk", was.FromDisk, "err", err.Error())
	}
}
