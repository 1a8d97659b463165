package follow

import (
	"bytes"
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
)

// A fetchSink is the sink of a fetch, or of the file on disk.
type fetchSink struct {
	follower *Follower
	toDisk   bool // store on disk
	live     bool // data of the source, not of the disk

	suspicious      int    // number of suspicious clients
	firstSuspicious string // describes the first of them
	work            workPacer
	rules           int    // number of rules received
	heavyDone       func() // called when the heavy work is done
	header          control.Header
	snapshot        *snapshotSink
	delta           *deltaSink
	draft           *draft // the snapshot's file
	diskErr         error
	buffer          bytes.Buffer // the encoded change
	encoder         *control.Writer
}

// maxDeltaBytes bounds a change kept in memory for the disk. A larger change rewrites the file.
const maxDeltaBytes = maxPending

// Begin receives the header.
func (t *fetchSink) Begin(h control.Header) (err error) {
	t.header = h
	if t.live {
		t.follower.openTimer.Stop()
	}
	if t.live && h.Mark() == t.follower.refused && h.Revision > 0 {
		return errAlreadyRefused
	}
	if want := t.follower.config.Source.Namespace(); h.Namespace != want {
		return fmt.Errorf("%w: wrong namespace %q", control.ErrBroken, h.Namespace)
	}
	current := t.follower.current
	if t.live && h.Revision == 0 && current != nil && current.mark.Revision == 0 && t.follower.fromSource {
		return errStillEmpty
	}
	if t.live && h.Revision == 0 && current != nil && current.mark.Revision > 0 && !t.follower.fromOtherSource {
		return fmt.Errorf("%w: it was at revision %d and is at 0 now", errLost, current.mark.Revision)
	}
	if h.Since == 0 {
		if t.snapshot, err = newSnapshotSink(h, t.checkClient); err != nil {
			return err
		}
		if t.toDisk {
			t.draft, t.diskErr = t.follower.disk.newDraft(h)
		}
		return nil
	}
	t.delta = newDeltaSink(h, t.checkClient)
	if t.toDisk {
		t.encoder, err = control.NewWriter(&t.buffer, h)
	}
	return err
}

// Item pauses after each workPerPause objects, so that decisions can run. match.Compile does the same.
const (
	workPerPause = 512 // objects between two pauses; reading so many takes about a millisecond
	pauseLength  = 20 * time.Microsecond
	ruleWork     = 16 // reading a rule takes as long as reading this many clients
)

// heavyRules is the number of rules from which on compiling counts as heavy work.
const heavyRules = 1000

// startHeavy calls Config.HeavyWork if compiling this many rules is heavy work.
func (t *fetchSink) startHeavy(rules int) {
	if t.heavyDone == nil && rules >= heavyRules {
		t.heavyDone = t.follower.config.HeavyWork()
	}
}

// endHeavy ends the heavy work.
func (t *fetchSink) endHeavy() {
	if t.heavyDone != nil {
		t.heavyDone()
	}
}

// workPacer counts the work since the last pause.
type workPacer int

// add adds work and pauses when there was enough.
func (p *workPacer) add(work workPacer) {
	if *p += work; *p >= workPerPause {
		*p = 0
		time.Sleep(pauseLength)
	}
}

// Item receives an object. Without rules in force there are no decisions to pause for.
func (t *fetchSink) Item(item *control.Item) error {
	if t.live && t.follower.current != nil {
		work := workPacer(1)
		if item.Kind == control.KindRule {
			work = ruleWork
			t.rules++
			t.startHeavy(t.rules)
		}
		t.work.add(work)
	}
	if t.snapshot != nil {
		if err := t.snapshot.item(item); err != nil {
			return err
		}
		if t.draft != nil {
			if err := t.draft.writer.Write(item); err != nil { // the disk is full, but the rules can still be used
				t.diskErr = err
				t.discardDraft()
			}
		}
		return nil
	}
	if err := t.delta.item(item); err != nil {
		return err
	}
	if t.encoder != nil && t.buffer.Len() <= maxDeltaBytes {
		return t.encoder.Write(item)
	}
	return nil
}

// checkClient records what is suspicious about a client.
func (t *fetchSink) checkClient(c *rules.Client) {
	text := t.follower.config.CheckClient(c)
	if text == "" {
		return
	}
	if t.suspicious++; t.suspicious == 1 {
		t.firstSuspicious = "client " + rules.Quote(c.ID) + ": " + text
	}
}

// logSuspicious logs the suspicious clients.
func (t *fetchSink) logSuspicious() {
	f := t.follower
	if t.suspicious > 0 {
		f.log.Warn("suspicious clients, which may not have the intended effect", "clients", t.suspicious,
			"first", t.firstSuspicious)
	}
	if t.suspicious > 0 || t.snapshot != nil {
		f.change(func(s *Status) { s.SuspiciousClient = t.firstSuspicious })
	}
}

// discardDraft deletes the draft, if any.
func (t *fetchSink) discardDraft() {
	if t.draft != nil {
		t.draft.discard()
		t.draft = nil
	}
}

// A diskSink is a sink that only stores on disk.
type diskSink struct {
	disk  *disk
	draft *draft
}

// Begin opens the draft.
func (r *diskSink) Begin(h control.Header) (err error) {
	r.draft, err = r.disk.newDraft(h)
	return err
}

// Item writes an object.
func (r *diskSink) Item(item *control.Item) error { return r.draft.writer.Write(item) }
