package dump

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/headgate/headgate/server/control"
)

// An Event is an operation on a backup, such as its restore, that Record adds to the log of the backup.
type Event struct {
	Namespace, ID, Actor, From, Note string
	Time                             time.Time
	// Body returns the body of the event. last is the last revision of the backup.
	Body func(last int64) ([]byte, error)
}

// Record returns a copy of a backup with an event as the last change. Restoring the copy stores the content and the
// event, or neither.
func Record(backup io.Reader, e Event) (io.Reader, error) {
	in, err := NewReader(backup)
	if err != nil {
		return nil, err
	}
	r := &recorder{event: e, in: in, system: Namespace{Name: e.Namespace}}
	r.out, err = NewWriter(&r.text, e.Time)
	return r, err
}

// A recorder reads the backup with the event.
type recorder struct {
	event Event
	in    *Reader
	out   *Writer
	text  bytes.Buffer // bytes to be read next
	err   error

	all      Namespace // the revisions of the whole database
	system   Namespace // the revisions of the event's namespace
	previous *Object   // the object of the previous event with the same ID, if any
}

// Read reads the backup with the event.
func (r *recorder) Read(p []byte) (int, error) {
	for r.text.Len() == 0 && r.err == nil {
		r.err = r.step()
	}
	if r.text.Len() > 0 {
		return r.text.Read(p)
	}
	return 0, r.err
}

// step copies one line of the backup. At the end of the backup, it writes the event.
func (r *recorder) step() error {
	line, err := r.in.Next()
	if errors.Is(err, io.EOF) && !errors.Is(err, control.ErrBroken) {
		return errors.Join(r.end(), io.EOF)
	}
	if err != nil {
		return err
	}
	switch o := line.Object; {
	case line.Namespace != nil && line.Namespace.Name == "":
		r.all = *line.Namespace
	case line.Namespace != nil && line.Namespace.Name == r.event.Namespace:
		r.system = *line.Namespace
	case o != nil && o.Kind == control.KindEvent && o.Namespace == r.event.Namespace && o.ID == r.event.ID:
		r.previous = o
		return nil // replaced by the new event
	}
	return r.out.Write(*line)
}

func (r *recorder) end() error {
	body, err := r.event.Body(r.all.Last)
	if err != nil {
		return err
	}
	e, now := &r.event, r.event.Time.UnixMicro()
	revision := r.all.Last + 1
	r.all.Last, r.system.Last = revision, revision
	object := &Object{
		Namespace: e.Namespace, Kind: control.KindEvent, ID: e.ID, Revision: revision, Created: now, Updated: now,
		By: e.Actor, Body: body,
	}
	op := &Op{Kind: control.KindEvent, ID: e.ID, Body: body}
	if p := r.previous; p != nil {
		object.Created = p.Created
		op.Previous = &Previous{Revision: p.Revision, Created: p.Created, Updated: p.Updated, By: p.By, Body: p.Body}
	}
	for _, line := range []Line{
		{Namespace: &r.all},
		{Namespace: &r.system},
		{Object: object},
		{Change: &Change{
			Revision: revision, Namespace: e.Namespace, Time: now, Actor: e.Actor, From: e.From, Note: e.Note, Action: e.ID,
		}},
		{Op: op},
	} {
		if err := r.out.Write(line); err != nil {
			return err
		}
	}
	return r.out.Close()
}
