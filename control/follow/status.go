package follow

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate/control"
)

// A Status is how a Follower is.
type Status struct {
	// Source and Namespace are whom it follows.
	Source, Namespace string
	// Revision is that of the rules in force, 0 if there are none yet.
	Revision int64
	// Ready tells that there are rules in force, be they as old as they may.
	Ready bool
	// Rules and Clients are how many there are, and Overrides how many of these hold now.
	Rules, Clients, Overrides int
	// Loaded is when they came into force here, and Lag how long after they were committed; 0 if they were there before the
	// Follower was.
	Loaded time.Time
	Lag    time.Duration
	// Checked is when the source last said that there are no later ones than those it sent.
	Checked time.Time
	// FromDisk tells that they are those of the file, since the source was never reached.
	FromDisk bool
	// Push tells that the source says at once when something changes, and PushError why it does not.
	Push      bool
	PushError string
	// Away is why the source could not be asked, Refused why what it sent cannot be used here, Disk why rules are not kept there.
	Away, Refused, Disk string
	// Doubt is what is suspicious about a client that came last, empty if nothing is.
	Doubt string
	// How often everything was taken, or a change, or nothing was new; and how often it was refused or the source was away.
	Whole, Deltas, Unchanged, Refusals, Failures int64
}

// Status returns how it is.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// change changes the status and tells of it.
func (f *Follower) change(do func(*Status)) {
	f.mu.Lock()
	do(&f.status)
	now := f.status
	f.mu.Unlock()
	f.config.Changed(now)
}

// inForce says that what is held has come into force.
func (f *Follower) inForce(h control.Header, fromDisk bool, level slog.Level) {
	now := f.config.Clock()
	held := f.held
	was := f.Status()
	var lag time.Duration
	if h.Time.After(f.started) { // what was committed before anybody waited for it here was not late
		lag = max(0, now.Sub(later(h.Time, was.Checked)))
	}
	f.change(func(s *Status) {
		s.Revision, s.Ready, s.FromDisk, s.Lag, s.Loaded, s.Refused = held.mark.Revision, true, fromDisk, lag, now, ""
		s.Rules, s.Clients, s.Overrides = held.set.Len(), held.clients.registry.Len(), held.overlay.count(now)
		if !fromDisk {
			s.Checked, s.Away = now, ""
		}
	})
	if was.Away != "" && !fromDisk {
		f.log.Info("the rules service is there again")
	}
	f.log.Log(context.Background(), level, "rules in force", "source", f.config.Source.Name(), "revision", held.mark.Revision, "rules", held.set.Len(),
		"clients", held.clients.registry.Len(), "from_disk", fromDisk, "lag_ms", lag.Milliseconds())
	signal(f.beat)
}

// later returns the later of two times. A database that was restored has revisions of a time at which nobody could have them.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reached says that the source has answered, and whether what it has is still what was refused.
func (f *Follower) reached(same bool) {
	now := f.config.Clock()
	was := f.Status()
	f.change(func(s *Status) {
		s.Checked, s.Away, s.FromDisk = now, "", false
		if !same && f.bad == (control.Mark{}) {
			s.Refused = ""
		}
	})
	if was.Away != "" {
		f.log.Info("the rules service is there again", "revision", was.Revision)
	}
}

func (f *Follower) refuse(err error) {
	was := f.Status()
	f.change(func(s *Status) {
		s.Checked, s.Away, s.FromDisk = f.config.Clock(), "", false
		s.Refused = err.Error()
		s.Refusals++
	})
	if was.Refused != err.Error() { // the log is not filled with one
		f.log.Error("rules refused, those in force stay", "revision", was.Revision, "refused", f.bad.Revision, "err", err.Error())
		signal(f.beat)
	}
}

func (f *Follower) away(err error) {
	was := f.Status()
	f.change(func(s *Status) {
		s.Away = err.Error()
		s.Failures++
	})
	if was.Away == "" && was.Ready {
		f.log.Warn("the rules service cannot be asked; the rules in force stay", "source", was.Source, "revision", was.Revision,
			"from_disk", was.FromDisk, "err", err.Error())
	}
}
