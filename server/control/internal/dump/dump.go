// Package dump defines the backup format of the database of a rules service. A backup has a line of JSON for each
// namespace, object, change, operation of a change, and state. The last line has the number and the checksum of the
// lines.
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

// formatVersion is the version of the format.
const formatVersion = 1

// maxLine is the maximum length of a line in bytes. The longest line is an Op with two bodies.
const maxLine = 2*control.MaxBody + 64<<10

// A Line is a line of a backup: exactly one of its fields is set.
type Line struct {
	Namespace *Namespace `json:"namespace,omitempty"`
	Object    *Object    `json:"object,omitempty"`
	Change    *Change    `json:"change,omitempty"`
	Op        *Op        `json:"op,omitempty"`
	State     *State     `json:"state,omitempty"`
}

// A Namespace has the revisions of a namespace. The Namespace with an empty name has the revisions of the whole
// database.
type Namespace struct {
	Name   string `json:"name"`
	Last   int64  `json:"last"`
	Nodes  int64  `json:"nodes"`
	Pruned int64  `json:"pruned,omitempty"`
}

// An Object is a control.Object. In this and the following types, times are microseconds since 1970.
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

// A Change is a control.Change. The lines of its operations follow it.
type Change struct {
	Revision  int64  `json:"revision"`
	Namespace string `json:"namespace"`
	Time      int64  `json:"time"`
	Actor     string `json:"actor"`
	From      string `json:"from"`
	Action    string `json:"action"`
	Note      string `json:"note,omitempty"`
}

// An Op is an operation of the last Change before it. Body is the object's body after the change. Previous is the
// object before the change, nil if it did not exist.
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
	Version int       `json:"headgate_rules_backup"`
	Created time.Time `json:"made"`
}

// countField is the name of the number of lines in the last line of a backup.
const countField = "lines"

// A Writer writes a backup.
type Writer struct {
	to    *bufio.Writer
	lines *lines.Writer
}

// NewWriter writes the header and returns a Writer.
func NewWriter(w io.Writer, now time.Time) (*Writer, error) {
	to := bufio.NewWriterSize(w, 64<<10)
	d := &Writer{to: to, lines: lines.NewWriter(to, maxLine, countField)}
	return d, writeError(d.lines.Write(header{Version: formatVersion, Created: now.UTC().Truncate(time.Second)}))
}

// Write writes a line.
func (d *Writer) Write(l Line) error { return writeError(d.lines.Write(l)) }

// Close writes the last line. A Reader refuses a backup without it.
func (d *Writer) Close() error { return writeError(errors.Join(d.lines.Close(), d.to.Flush())) }

func writeError(err error) error {
	if err != nil {
		return fmt.Errorf("write a backup: %w", err)
	}
	return nil
}

// A Reader reads a backup.
type Reader struct{ lines *lines.Reader }

// NewReader reads the header and returns a Reader.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{lines.NewReader(r, maxLine, countField)}
	var h header
	switch _, err := d.lines.Next(&h); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, broken(err)
	case err != nil || h.Version == 0:
		return nil, fmt.Errorf("%w: not a backup: wrong first line", control.ErrBroken)
	case h.Version != formatVersion:
		return nil, fmt.Errorf("%w: the backup has format %d, and this version reads %d",
			control.ErrNewerSchema, h.Version, formatVersion)
	}
	return d, nil
}

func broken(err error) error { return fmt.Errorf("%w: the backup: %w", control.ErrBroken, err) }

// Next returns the next line, or io.EOF when all lines were read and the checksum matches.
func (d *Reader) Next() (*Line, error) {
	l := new(Line)
	switch more, err := d.lines.Next(l); {
	case err != nil:
		return nil, broken(err)
	case !more:
		return nil, io.EOF
	case *l == (Line{}):
		return nil, broken(errors.New("a line of an unknown kind"))
	}
	return l, nil
}
