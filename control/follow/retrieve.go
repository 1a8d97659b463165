package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/rules"
)

// The pauses after a fetch that failed, which grow up to Config.Poll.
const firstRetry = 250 * time.Millisecond

// retrieve asks the source again and again: when it is poked, when it is time to, and sooner after a failure.
func (f *Follower) retrieve(ctx context.Context) {
	retry := time.Duration(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := f.config.Clock() // when the source is to be asked
	due = due.Add(f.pollPause())
	for {
		now := f.config.Clock()
		wait := due.Sub(now)
		if f.held != nil {
			if end := f.held.overlay.next(now); !end.IsZero() {
				wait = min(wait, end.Sub(now))
			}
		}
		timer.Reset(max(0, wait))
		poked := false
		select {
		case <-ctx.Done():
			return
		case <-f.poke:
			poked = true
		case <-timer.C:
		}
		f.expire()
		if now := f.config.Clock(); !poked && now.Before(due) {
			continue // an override has ended
		}
		err := f.fetch(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			retry = 0
			due = f.config.Clock().Add(f.pollPause())
		case errors.Is(err, errMoved):
			due = f.config.Clock()
		default:
			retry = min(max(2*retry, firstRetry), f.config.Poll)
			pause := retry/2 + rand.N(retry)
			var answer *remote.Error
			if errors.As(err, &answer) && answer.RetryAfter > 0 {
				pause = max(pause, min(answer.RetryAfter, time.Minute))
			}
			due = f.config.Clock().Add(pause)
		}
	}
}

// pollPause is by chance, so that nodes that start together do not ask together.
func (f *Follower) pollPause() time.Duration {
	return f.config.Poll*4/5 + rand.N(f.config.Poll*2/5)
}

// expire ends the overrides whose time is over.
func (f *Follower) expire() {
	if f.held == nil || len(f.held.overlay.over) == 0 {
		return
	}
	before := len(f.held.overlay.over)
	broken, err := f.held.expire(f.config.Clock())
	if err != nil {
		f.log.Error("overrides did not end", "err", err.Error())
		f.known = f.known && !broken // then everything is fetched
		return
	}
	if now := len(f.held.overlay.over); now != before {
		f.log.Info("overrides have ended", "clients", now)
		f.change(func(s *Status) { s.Overrides = f.held.overlay.count(f.config.Clock()) })
	}
}

// fetch asks the source what is new and puts it in force. What it is told cannot be used here is no error: the status says so.
func (f *Follower) fetch(ctx context.Context) error {
	var since control.Mark
	if f.held != nil && f.known {
		since = f.held.mark
	}
	err := f.fetchSince(ctx, since)
	if errors.Is(err, errTangled) && since.Revision > 0 {
		f.log.Info("changes that depend on each other: everything is fetched", "err", err.Error())
		err = f.fetchSince(ctx, control.Mark{})
	}
	switch {
	case err == nil, errors.Is(err, errSame):
		f.reached(errors.Is(err, errSame))
		return nil
	case errors.Is(err, ErrRefused):
		f.refuse(err)
		return nil
	case errors.Is(err, errMoved):
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
		err = errors.Join(cause, err)
	}
	f.away(err)
	return err
}

// errLost is for a source that had rules and has never had any now. Whoever deletes all rules makes a revision; one that starts
// over has lost what it had, and nothing is not what anybody wanted.
var errLost = errors.New("the rules service has lost its rules: restore them, or make new ones")

// errSame is for what was refused before.
var errSame = errors.New("it was refused before")

// errStill is for a source that has no rules yet and had none before: there is no mark of nothing by which it could tell.
var errStill = errors.New("there are no rules yet")

func (f *Follower) fetchSince(ctx context.Context, since control.Mark) error {
	t := &taker{follower: f, keep: f.disk != nil, live: true}
	defer t.drop()
	defer t.rest()
	err := f.config.Source.Fetch(ctx, since, t)
	if err != nil && !errors.Is(err, errStill) {
		if errors.Is(err, ErrRefused) {
			f.bad = t.header.Mark()
		}
		return err
	}
	switch {
	case t.delta != nil:
		return f.takeDelta(t)
	case t.whole != nil:
		return f.takeWhole(t)
	}
	f.change(func(s *Status) { s.Unchanged++ })
	f.mend(ctx)
	return nil
}

func (f *Follower) takeWhole(t *taker) error {
	h, err := t.whole.finish(f.config.Clock())
	if err == nil {
		if err = f.config.Apply(h.set); err != nil {
			err = refused(err)
		}
	}
	if err != nil {
		f.bad = t.header.Mark()
		return err
	}
	f.held, f.known, f.foreign, f.bad = h, true, false, control.Mark{}
	f.change(func(s *Status) { s.Whole++ })
	f.inForce(t.header, false, slog.LevelInfo)
	t.tell()
	if t.draft != nil {
		w := t.draft
		t.draft = nil
		f.kept(f.disk.replace(w))
	} else if t.diskErr != nil {
		f.kept(t.diskErr)
	}
	return nil
}

func (f *Follower) takeDelta(t *taker) error {
	if f.held == nil || t.header.Since != f.held.mark.Revision {
		return fmt.Errorf("%w: what has changed since revision %d, which was not asked for", control.ErrBroken, t.header.Since)
	}
	if len(t.delta.rules) > 0 {
		t.ahead(len(f.held.rules)) // all of them are made ready
	}
	broken, err := f.held.change(t.delta, f.config.Clock(), f.config.Apply)
	if err != nil {
		if errors.Is(err, ErrRefused) && !errors.Is(err, errTangled) {
			f.bad = t.header.Mark()
		}
		f.known = f.known && !broken
		return err
	}
	f.bad = control.Mark{}
	f.change(func(s *Status) { s.Deltas++ })
	level := slog.LevelDebug // clients may change all the time
	if len(t.delta.rules) > 0 {
		level = slog.LevelInfo
	}
	f.inForce(t.header, false, level)
	t.tell()
	if f.disk != nil {
		f.kept(f.keepDelta(t))
	}
	return nil
}

func (f *Follower) keepDelta(t *taker) error {
	if t.buffer.Len() > maxDeltaBytes {
		f.disk.abandon()
		return errNoFile
	}
	if err := t.document.Close(); err != nil {
		return err
	}
	if err := f.disk.add(t.buffer.Bytes(), t.header.Revision); err != nil {
		return err
	}
	if f.disk.grown() {
		return f.disk.rewrite()
	}
	return nil
}

// mend writes everything to disk if that has failed before, and there is time for it now.
func (f *Follower) mend(ctx context.Context) {
	if f.disk == nil || f.held == nil || f.disk.file != nil && f.disk.pending.Len() == 0 {
		return
	}
	if f.disk.file != nil { // it only had no room
		f.kept(f.disk.add(nil, f.held.mark.Revision))
		return
	}
	now := f.config.Clock()
	if now.Before(f.mended.Add(mendEvery)) {
		return
	}
	f.mended = now
	w := &recorder{disk: f.disk}
	err := f.config.Source.Fetch(ctx, control.Mark{}, w)
	if err == nil && w.draft != nil && w.draft.header.Mark() == f.held.mark {
		f.kept(f.disk.replace(w.draft))
		return
	}
	if w.draft != nil {
		w.draft.drop()
	}
	if err != nil {
		f.kept(err)
	}
}

// mendEvery is how often everything is fetched for the sake of the disk.
const mendEvery = time.Minute

// kept says how the disk is.
func (f *Follower) kept(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if f.Status().Disk == text {
		return
	}
	if err != nil {
		f.diskFailed(err)
		return
	}
	f.log.Info("rules are kept on disk again")
	f.change(func(s *Status) { s.Disk = "" })
}

// A taker takes what is fetched or read from disk.
type taker struct {
	follower *Follower
	keep     bool // on disk
	live     bool // it comes from the source

	doubts   int
	doubted  string // the first of them
	work     polite
	rules    int    // that have come
	heavy    func() // is called when much was done
	header   control.Header
	whole    *whole
	delta    *delta
	draft    *draft // of everything
	diskErr  error
	buffer   bytes.Buffer // of a change
	document *control.Writer
}

// maxDeltaBytes is the most that is kept of a change in memory to write it to disk. More is written anew.
const maxDeltaBytes = maxPending

// Begin takes the header.
func (t *taker) Begin(h control.Header) (err error) {
	t.header = h
	if t.live {
		t.follower.opening.Stop()
	}
	if t.live && h.Mark() == t.follower.bad && h.Revision > 0 {
		return errSame
	}
	if want := t.follower.config.Source.Namespace(); h.Namespace != want {
		return fmt.Errorf("%w: it is of namespace %q", control.ErrBroken, h.Namespace)
	}
	held := t.follower.held
	if t.live && h.Revision == 0 && held != nil && held.mark.Revision == 0 && t.follower.known {
		return errStill
	}
	if t.live && h.Revision == 0 && held != nil && held.mark.Revision > 0 && !t.follower.foreign {
		return fmt.Errorf("%w: it was at revision %d and is at none now", errLost, held.mark.Revision)
	}
	if h.Since == 0 {
		if t.whole, err = newWhole(h, t.doubt); err != nil {
			return err
		}
		if t.keep {
			t.draft, t.diskErr = t.follower.disk.draft(h)
		}
		return nil
	}
	t.delta = newDelta(h, t.doubt)
	if t.keep {
		t.document, err = control.NewWriter(&t.buffer, h)
	}
	return err
}

// Those who decide requests are let pass after so much work, about a millisecond: see rules.Compile, which does the same.
const (
	politeEvery = 512
	politePause = 20 * time.Microsecond
	ruleWork    = 16 // to read a rule takes as long as to read so many clients
)

// heavyRules is how many rules are much to make at once.
const heavyRules = 1000

// ahead tells that so many rules are made while requests are decided.
func (t *taker) ahead(rules int) {
	if t.heavy == nil && rules >= heavyRules {
		t.heavy = t.follower.config.Heavy()
	}
}

// rest tells that nothing more is made.
func (t *taker) rest() {
	if t.heavy != nil {
		t.heavy()
	}
}

// polite is work, since others were let pass.
type polite int

// done lets others pass now and then.
func (p *polite) done(work polite) {
	if *p += work; *p >= politeEvery {
		*p = 0
		time.Sleep(politePause)
	}
}

// Item takes an object. As long as nothing is in force nobody waits.
func (t *taker) Item(item *control.Item) error {
	if t.live && t.follower.held != nil {
		work := polite(1)
		if item.Kind == control.KindRule {
			work = ruleWork
			t.rules++
			t.ahead(t.rules)
		}
		t.work.done(work)
	}
	if t.whole != nil {
		if err := t.whole.item(item); err != nil {
			return err
		}
		if t.draft != nil {
			if err := t.draft.writer.Write(item); err != nil { // the disk is full, which the rules do not mind
				t.diskErr = err
				t.drop()
			}
		}
		return nil
	}
	if err := t.delta.item(item); err != nil {
		return err
	}
	if t.document != nil && t.buffer.Len() <= maxDeltaBytes {
		return t.document.Write(item)
	}
	return nil
}

// doubt notes what is suspicious about a client.
func (t *taker) doubt(c *rules.Client) {
	text := t.follower.config.Doubt(c)
	if text == "" {
		return
	}
	if t.doubts++; t.doubts == 1 {
		t.doubted = "client " + rules.Quote(c.ID) + ": " + text
	}
}

// tell tells of what is suspicious.
func (t *taker) tell() {
	f := t.follower
	if t.doubts > 0 {
		f.log.Warn("clients that may not be what was meant", "clients", t.doubts, "first", t.doubted)
	}
	if t.doubts > 0 || t.whole != nil {
		f.change(func(s *Status) { s.Doubt = t.doubted })
	}
}

// drop forgets what would have been kept.
func (t *taker) drop() {
	if t.draft != nil {
		t.draft.drop()
		t.draft = nil
	}
}

// A recorder keeps what is fetched on disk, and nothing else.
type recorder struct {
	disk  *disk
	draft *draft
}

// Begin opens the draft.
func (r *recorder) Begin(h control.Header) (err error) {
	r.draft, err = r.disk.draft(h)
	return err
}

// Item writes an object.
func (r *recorder) Item(item *control.Item) error { return r.draft.writer.Write(item) }
