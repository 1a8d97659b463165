package feed

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/headgate/headgate/server/control"
)

// A writer encodes a snapshot as lines of JSON, compressed with gzip.
type writer struct {
	out   bytes.Buffer
	gzip  *gzip.Writer
	items *control.Writer
}

func newWriter(level int, h control.Header) (*writer, error) {
	w := &writer{}
	var err error
	if w.gzip, err = gzip.NewWriterLevel(&w.out, level); err != nil {
		return nil, err
	}
	w.items, err = control.NewWriter(w.gzip, h)
	return w, err
}

func (w *writer) write(o *control.Object) error { return w.items.Write(o.Item()) }

// snapshot ends the encoding and returns its result.
func (w *writer) snapshot(mark, since control.Mark) (*Snapshot, error) {
	if err := errors.Join(w.items.Close(), w.gzip.Close()); err != nil {
		return nil, err
	}
	return &Snapshot{Mark: mark, Gzip: w.out.Bytes(), since: since}, nil
}

// rewrite returns a copy of a snapshot of all content, with the snapshot's mark in the header.
func rewrite(s *Snapshot, namespace string) (*Snapshot, error) {
	plain, err := gzip.NewReader(bytes.NewReader(s.Gzip))
	if err != nil {
		return nil, err
	}
	r, err := control.NewReader(plain)
	if err != nil {
		return nil, err
	}
	header := control.Header{Namespace: namespace, Revision: s.Mark.Revision, Time: s.Mark.Time()}
	w, err := newWriter(gzip.BestSpeed, header)
	if err != nil {
		return nil, err
	}
	for {
		item, err := r.Next()
		if errors.Is(err, io.EOF) {
			return w.snapshot(s.Mark, control.Mark{})
		}
		if err == nil {
			err = w.items.Write(item)
		}
		if err != nil {
			return nil, err
		}
	}
}
