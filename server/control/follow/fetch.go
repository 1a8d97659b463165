package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// firstRetry is the first pause after a failed fetch. Pauses grow up to Config.Poll.
const firstRetry = 250 * time.Millisecond

// fetchLoop fetches on request, at the poll interval, and sooner after a failure. It also ends expired overrides.
func (f *Follower) fetchLoop(ctx context.Context) {
	retry := time.Duration(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	nextFetch := f.config.Clock().Add(f.pollPause())
	for {
		now := f.config.Clock()
		wait := nextFetch.Sub(now)
		if f.current != nil {
			if expiry := f.current.overlay.nextExpiry(now); !expiry.IsZero() {
				wait = min(wait, expiry.Sub(now))
			}
		}
		timer.Reset(max(0, wait))
		requested := false
		select {
		case <-ctx.Done():
			return
		case <-f.fetchNow:
			requested = true
		case <-timer.C:
		}
		f.expire()
		if now := f.config.Clock(); !requested && now.Before(nextFetch) {
			continue // only an override has expired
		}
		err := f.fetch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry = 0
			nextFetch = f.config.Clock().Add(f.pollPause())
		case errors.Is(err, errChangedWhileRead):
			nextFetch = f.config.Clock()
		default:
			retry = min(max(2*retry, firstRetry), f.config.Poll)
			pause := retry/2 + rand.N(retry)
			var response *remote.Error
			if errors.As(err, &response) && response.RetryAfter > 0 {
				pause = max(pause, min(response.RetryAfter, time.Minute))
			}
			nextFetch = f.config.Clock().Add(pause)
		}
	}
}

// pollPause returns the time until the next poll. It is random, so that nodes that start together do not poll together.
func (f *Follower) pollPause() time.Duration {
	return f.config.Poll*4/5 + rand.N(f.config.Poll*2/5)
}

// expire removes expired overrides.
func (f *Follower) expire() {
	if f.current == nil || len(f.current.overlay.clients) == 0 {
		return
	}
	before := len(f.current.overlay.clients)
	broken, err := f.current.expire(f.config.Clock())
	if err != nil {
		f.log.Error("expired overrides could not be removed", "err", err.Error())
		f.fromSource = f.fromSource && !broken // if the state is broken, the next fetch gets all objects
		return
	}
	if now := len(f.current.overlay.clients); now != before {
		f.log.Info("overrides expired", "clients", now)
		f.updateStatus(func(s *Status) { s.Overrides = f.current.overlay.count(f.config.Clock()) })
	}
}

// fetch gets changes from the source and puts them in force. It returns nil if this node cannot use the rules, because
// a retry would not help, and records that in the status.
func (f *Follower) fetch(ctx context.Context) error {
	var since control.Mark
	if f.current != nil && f.fromSource {
		since = f.current.mark
	}
	err := f.fetchSince(ctx, since)
	if errors.Is(err, errSharedValue) && since.Revision > 0 {
		f.log.Info("changes depend on each other, fetching everything", "err", err.Error())
		err = f.fetchSince(ctx, control.Mark{})
	}
	switch {
	case err == nil, errors.Is(err, errAlreadyRefused):
		f.setReached(errors.Is(err, errAlreadyRefused))
		return nil
	case errors.Is(err, ErrRefused):
		f.setRefused(err)
		return nil
	case errors.Is(err, errChangedWhileRead):
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
		err = errors.Join(cause, err)
	}
	f.setUnreachable(err)
	return err
}

// errLost means that a source had rules and is now at revision 0. Even deleting all rules creates a revision, so the
// source has lost its data.
var errLost = errors.New("the rules service has lost its rules: restore them, or create new ones")

// errAlreadyRefused means that the same revision was refused already.
var errAlreadyRefused = errors.New("already refused")

// errStillEmpty means that a source without rules still has none. Sources cannot report that themselves, because
// revision 0 has no mark.
var errStillEmpty = errors.New("there are no rules yet")

func (f *Follower) fetchSince(ctx context.Context, since control.Mark) error {
	t := &fetchSink{follower: f, toDisk: f.disk != nil, fromSource: true}
	defer t.discardDraft()
	defer t.endHeavy()
	err := f.config.Source.Fetch(ctx, since, t)
	if err != nil && !errors.Is(err, errStillEmpty) {
		if errors.Is(err, ErrRefused) {
			f.refused = t.header.Mark()
		}
		return err
	}
	switch {
	case t.snapshot != nil:
		return f.applySnapshot(t)
	case t.delta == nil:
		f.updateStatus(func(s *Status) { s.Unchanged++ })
	default:
		if err := f.applyDelta(t); err != nil {
			return err
		}
	}
	f.maintainDisk(ctx)
	return nil
}

func (f *Follower) applySnapshot(t *fetchSink) error {
	state, err := t.snapshot.finish(f.config.Clock())
	if err == nil {
		f.applySuspensions(state)
		if err = f.config.Apply(state.set); err != nil {
			err = refusedError(err)
		}
	}
	if err != nil {
		f.refused = t.header.Mark()
		return err
	}
	f.current, f.fromSource, f.fromOtherSource, f.refused = state, true, false, control.Mark{}
	f.updateStatus(func(s *Status) { s.Snapshots++ })
	f.setInForce(t.header, false, slog.LevelInfo)
	t.logSuspicious()
	if t.draft != nil {
		w := t.draft
		t.draft = nil
		f.setDiskStatus(f.disk.replace(w))
	} else if t.diskErr != nil {
		f.setDiskStatus(t.diskErr)
	}
	return nil
}

func (f *Follower) applyDelta(t *fetchSink) error {
	if f.current == nil || t.header.Since != f.current.mark.Revision {
		return fmt.Errorf("%w: changes since revision %d, which were not requested", control.ErrBroken, t.header.Since)
	}
	if len(t.delta.rules) > 0 {
		t.startHeavy(len(f.current.rules)) // all rules are compiled
	}
	broken, err := f.current.apply(t.delta, f.config.Clock(), f.config.Apply)
	if err != nil {
		if errors.Is(err, ErrRefused) && !errors.Is(err, errSharedValue) {
			f.refused = t.header.Mark()
		}
		f.fromSource = f.fromSource && !broken
		return err
	}
	f.refused = control.Mark{}
	if len(t.delta.suspensions) > 0 {
		f.applySuspensions(f.current)
	}
	f.updateStatus(func(s *Status) { s.Deltas++ })
	level := slog.LevelDebug // clients may change often
	if len(t.delta.rules) > 0 {
		level = slog.LevelInfo
	}
	f.setInForce(t.header, false, level)
	t.logSuspicious()
	if f.disk != nil {
		f.setDiskStatus(f.storeDelta(t))
	}
	return nil
}

func (f *Follower) storeDelta(t *fetchSink) error {
	if t.buffer.Len() > maxDeltaBytes {
		f.disk.abandon()
		return errNoFile
	}
	if err := t.encoder.Close(); err != nil {
		return err
	}
	return f.disk.add(t.buffer.Bytes())
}

// maintainDisk retries a failed write, and replaces the file by a new snapshot if it is missing or has grown too large.
func (f *Follower) maintainDisk(ctx context.Context) {
	if f.disk == nil || f.current == nil {
		return
	}
	if f.disk.file != nil && f.disk.pending.Len() > 0 { // the disk was full
		f.setDiskStatus(f.disk.add(nil))
		return
	}
	now := f.config.Clock()
	if f.disk.file != nil && !f.disk.isOversized() || now.Before(f.lastDiskFetch.Add(diskFetchInterval)) {
		return
	}
	f.lastDiskFetch = now
	w := &diskSink{disk: f.disk}
	err := f.config.Source.Fetch(ctx, control.Mark{}, w)
	if err == nil && w.draft != nil && w.draft.header.Mark() == f.current.mark {
		f.setDiskStatus(f.disk.replace(w.draft))
		return
	}
	if w.draft != nil {
		w.draft.discard()
	}
	if err != nil && f.disk.file == nil {
		f.setDiskStatus(err)
	}
}

// applySuspensions passes the suspensions to Config.Suspend, in the order of their IDs.
func (f *Follower) applySuspensions(state *ruleState) {
	list := make([]control.Suspension, 0, len(state.suspensions))
	for _, id := range slices.Sorted(maps.Keys(state.suspensions)) {
		list = append(list, *state.suspensions[id])
	}
	f.config.Suspend(list)
}

// diskFetchInterval is the minimum time between two fetches of a snapshot for the disk.
const diskFetchInterval = time.Minute

// setDiskStatus records the result of a write to disk, and logs changes between success and failure.
func (f *Follower) setDiskStatus(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if f.Status().DiskError == text {
		return
	}
	if err != nil {
		f.diskFailed(err)
		return
	}
	f.log.Info("rules are stored on disk again")
	f.updateStatus(func(s *Status) { s.DiskError = "" })
}
