package follow

import (
	"bytes"
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
)

// A fetchSink receives objects from the source or from the file on disk.
type fetchSink struct {
	follower   *Follower
	toDisk     bool // also store the objects on disk
	fromSource bool // the objects are from the source, not from the disk

	suspiciousCount int    // number of suspicious clients
	firstSuspicious string // describes the first of them
	work            workPacer
	ruleCount       int    // number of rules received
	heavyDone       func() // result of Config.HeavyWork, nil unless it was called
	header          control.Header
	snapshot        *snapshotSink
	delta           *deltaSink
	draft           *draft // the new file, if header begins a snapshot
	diskErr         error
	buffer          bytes.Buffer // the delta as written by encoder, to append to the file
	encoder         *control.Writer
}

// maxDeltaBytes is the maximum size of a delta in memory. After a larger delta, the file is fetched completely.
const maxDeltaBytes = maxPending

// Begin receives the header. It refuses snapshots that must not replace the rules in force.
func (t *fetchSink) Begin(h control.Header) (err error) {
	t.header = h
	if t.fromSource {
		t.follower.openTimer.Stop()
	}
	if t.fromSource && h.Mark() == t.follower.refused && h.Revision > 0 {
		return errAlreadyRefused
	}
	if want := t.follower.config.Source.Namespace(); h.Namespace != want {
		return fmt.Errorf("%w: wrong namespace %q", control.ErrBroken, h.Namespace)
	}
	current := t.follower.current
	if t.fromSource && h.Revision == 0 && current != nil && current.mark.Revision == 0 && t.follower.fromSource {
		return errStillEmpty
	}
	if t.fromSource && h.Revision == 0 && current != nil && current.mark.Revision > 0 && !t.follower.fromOtherSource {
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

// Item pauses after each workPerPause objects, so that goroutines with decisions can run. match.Compile does the same.
const (
	workPerPause = 512 // objects between two pauses; reading this many takes about a millisecond
	pauseLength  = 20 * time.Microsecond
	ruleWork     = 16 // reading a rule takes as long as reading this many clients
)

// heavyRules is the minimum number of rules whose compilation counts as heavy work.
const heavyRules = 1000

// startHeavy calls Config.HeavyWork if compiling this many rules is heavy work.
func (t *fetchSink) startHeavy(rules int) {
	if t.heavyDone == nil && rules >= heavyRules {
		t.heavyDone = t.follower.config.HeavyWork()
	}
}

// endHeavy reports the end of the heavy work, if startHeavy reported its start.
func (t *fetchSink) endHeavy() {
	if t.heavyDone != nil {
		t.heavyDone()
	}
}

// workPacer counts the work since the last pause.
type workPacer int

// add adds work, and pauses if it reaches workPerPause.
func (p *workPacer) add(work workPacer) {
	if *p += work; *p >= workPerPause {
		*p = 0
		time.Sleep(pauseLength)
	}
}

// Item receives an object. It does not pause if no rules are in force, because then there are no decisions.
func (t *fetchSink) Item(item *control.Item) error {
	if t.fromSource && t.follower.current != nil {
		work := workPacer(1)
		if item.Kind == control.KindRule {
			work = ruleWork
			t.ruleCount++
			t.startHeavy(t.ruleCount)
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

// checkClient counts a client that Config.CheckClient finds suspicious, and describes the first one.
func (t *fetchSink) checkClient(c *rules.Client) {
	text := t.follower.config.CheckClient(c)
	if text == "" {
		return
	}
	if t.suspiciousCount++; t.suspiciousCount == 1 {
		t.firstSuspicious = "client " + rules.Quote(c.ID) + ": " + text
	}
}

// logSuspicious logs the number of suspicious clients, and sets the status.
func (t *fetchSink) logSuspicious() {
	f := t.follower
	if t.suspiciousCount > 0 {
		f.log.Warn("suspicious clients, which may not have the intended effect", "clients", t.suspiciousCount,
			"first", t.firstSuspicious)
	}
	if t.suspiciousCount > 0 || t.snapshot != nil {
		f.updateStatus(func(s *Status) { s.SuspiciousClient = t.firstSuspicious })
	}
}

// discardDraft deletes the draft, if any.
func (t *fetchSink) discardDraft() {
	if t.draft != nil {
		t.draft.discard()
		t.draft = nil
	}
}

// A diskSink stores objects on disk without putting them in force.
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
