// Package dump defines the backup format of a rules service's database: a line of JSON for each namespace, object,
// change, part of a change and state, and at the end their number and checksum.
package dump

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/lines"
)

// form is the version of the format.
const form = 1

// maxLine is the maximum length of a line in bytes. The longest line is an Op, with an object before and after a
// change.
const maxLine = 2*control.MaxBody + 64<<10

// A Line is a line of a backup: exactly one of its fields is set.
type Line struct {
	Namespace *Namespace `json:"namespace,omitempty"`
	Object    *Object    `json:"object,omitempty"`
	Change    *Change    `json:"change,omitempty"`
	Op        *Op        `json:"op,omitempty"`
	State     *State     `json:"state,omitempty"`
}

// A Namespace has the revisions of a namespace. The Namespace with an empty name has those of the whole database.
type Namespace struct {
	Name   string `json:"name"`
	Last   int64  `json:"last"`
	Nodes  int64  `json:"nodes"`
	Pruned int64  `json:"pruned,omitempty"`
}

// An Object is a control.Object. Times are microseconds since 1970, here and below.
type Object struct {
	Namespace string          `json:"namespace"`
	Kind      control.Kind    `json:"kind"`
	ID        string          `json:"id"`
	Revision  int64           `json:"revision"`
	Created   int64           `json:"created"`
	Updated   int64           `json:"updated"`
	By        string          `json:"by"`
	Body      json.RawMessage `json:"body"`
}

// A Change is a control.Change. Its parts follow it.
type Change struct {
	Revision  int64  `json:"revision"`
	Namespace string `json:"namespace"`
	Time      int64  `json:"time"`
	Actor     string `json:"actor"`
	From      string `json:"from"`
	Action    string `json:"action"`
	Note      string `json:"note,omitempty"`
}

// An Op is a part of the change in front of it: an object after and before the change. Previous is nil if the object did
// not exist.
type Op struct {
	Kind     control.Kind    `json:"kind"`
	ID       string          `json:"id"`
	Body     json.RawMessage `json:"body,omitempty"`
	Previous *Previous       `json:"was,omitempty"`
}

// A Previous is an object before a change.
type Previous struct {
	Revision int64           `json:"revision"`
	Created  int64           `json:"created"`
	Updated  int64           `json:"updated"`
	By       string          `json:"by"`
	Body     json.RawMessage `json:"body"`
}

// A State is a control.State.
type State struct {
	Bucket  string          `json:"bucket"`
	ID      string          `json:"id"`
	Expires int64           `json:"expires"`
	Body    json.RawMessage `json:"body"`
}

// header is the first line.
type header struct {
	Form    int       `json:"headgate_rules_backup"`
	Created time.Time `json:"made"`
}

// end is the last line.
type end struct {
	End   bool   `json:"end"`
	Lines int    `json:"lines"`
	Sum   string `json:"sha256"`
}

// A Writer writes a backup.
type Writer struct {
	to    *bufio.Writer
	lines *lines.Writer
	count int
}

// NewWriter starts a backup.
func NewWriter(w io.Writer, now time.Time) (*Writer, error) {
	to := bufio.NewWriterSize(w, 64<<10)
	d := &Writer{to: to, lines: lines.NewWriter(to, maxLine)}
	return d, d.write(header{Form: form, Created: now.UTC().Truncate(time.Second)})
}

// Write writes a line.
func (d *Writer) Write(l Line) error {
	d.count++
	return d.write(l)
}

// Close ends the backup. A Reader refuses a backup without its end.
func (d *Writer) Close() error {
	if err := d.write(end{End: true, Lines: d.count, Sum: d.lines.Sum()}); err != nil {
		return err
	}
	return d.to.Flush()
}

func (d *Writer) write(v any) error {
	if err := d.lines.Write(v); err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	return nil
}

// A Reader reads a backup.
type Reader struct {
	lines *lines.Reader
	count int
}

// NewReader starts to read a backup.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{lines: lines.NewReader(r, maxLine)}
	var h header
	switch err := d.lines.Next(&h); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, d.broken(err)
	case err != nil || h.Form == 0:
		return nil, fmt.Errorf("%w: not a backup: wrong first line", control.ErrBroken)
	case h.Form != form:
		return nil, fmt.Errorf("%w: the backup has format %d, and this version reads %d", control.ErrNewer, h.Form, form)
	}
	d.lines.Count()
	return d, nil
}

func (d *Reader) broken(err error) error {
	return fmt.Errorf("%w: line %d of the backup: %w", control.ErrBroken, d.count+2, err)
}

// Next returns the next line, or io.EOF when all lines were read and the checksum matches.
func (d *Reader) Next() (*Line, error) {
	var read struct {
		Line
		end
	}
	if err := d.lines.Next(&read); err != nil {
		return nil, d.broken(err)
	}
	if read.End {
		if sum := d.lines.Sum(); read.Sum != sum || read.Lines != d.count {
			return nil, d.broken(fmt.Errorf("%d lines with the checksum %s, want %d with %s", d.count, sum, read.Lines,
				read.Sum))
		}
		return nil, io.EOF
	}
	l := &read.Line
	if l.Namespace == nil && l.Object == nil && l.Change == nil && l.Op == nil && l.State == nil {
		return nil, d.broken(errors.New("unknown kind of line"))
	}
	d.lines.Count()
	d.count++
	return l, nil
}
