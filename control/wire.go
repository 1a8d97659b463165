package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/control/internal/lines"
)

// SnapshotType is the media type of what a Writer writes.
const SnapshotType = "application/x-ndjson"

// MaxLine is the most bytes of one line of a snapshot.
const MaxLine = 1 << 20

// A Header begins what a node is sent: all that its namespace has, or what has changed since a revision.
type Header struct {
	Namespace string `json:"namespace"`
	// Revision is what it leads to, Since what it starts from: 0 for a whole snapshot.
	Revision int64 `json:"revision"`
	Since    int64 `json:"since,omitempty"`
	// Time is when Revision was committed, zero if that is not known.
	Time time.Time `json:"time,omitzero"`
}

// An Item is one object of it.
type Item struct {
	Kind     Kind            `json:"kind"`
	ID       string          `json:"id"`
	Revision int64           `json:"revision,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
	Deleted  bool            `json:"deleted,omitempty"`
}

// end is the last line. Without it what was sent is not whole.
type end struct {
	End     bool   `json:"end"`
	Objects int    `json:"objects"`
	Sum     string `json:"sha256"` // of all lines before
}

// A Writer writes what a node is sent, a line for each object, the same on the wire and in the node's own file.
type Writer struct {
	lines *lines.Writer
	count int
}

// NewWriter begins with a header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	made := &Writer{lines: lines.NewWriter(w, MaxLine)}
	return made, made.write(h)
}

// Write writes one object.
func (w *Writer) Write(i *Item) error {
	w.count++
	return w.write(i)
}

// Close ends it. Without, a Reader refuses it.
func (w *Writer) Close() error {
	return w.write(end{End: true, Objects: w.count, Sum: w.lines.Sum()})
}

func (w *Writer) write(v any) error {
	if err := w.lines.Write(v); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// ErrBroken is for a snapshot that is cut off or was changed.
var ErrBroken = errors.New("not a whole snapshot")

// A Reader reads what a Writer wrote.
type Reader struct {
	// Header is how it begins.
	Header Header

	lines *lines.Reader
	count int
}

// NewReader reads the header.
func NewReader(r io.Reader) (*Reader, error) {
	made := &Reader{lines: lines.NewReader(r, MaxLine)}
	if err := made.lines.Next(&made.Header); err != nil {
		return nil, broken(1, err)
	}
	made.lines.Count()
	return made, nil
}

func broken(line int, err error) error { return fmt.Errorf("%w: line %d: %w", ErrBroken, line, err) }

// Next returns the next object, or io.EOF when all were read and are as they were written. The object is valid until the
// next call. Apply nothing before the end is reached.
func (r *Reader) Next() (*Item, error) {
	line := r.count + 2
	var read struct {
		Item
		end
	}
	if err := r.lines.Next(&read); err != nil {
		return nil, broken(line, err)
	}
	if !read.End {
		r.lines.Count()
		r.count++
		return &read.Item, nil
	}
	if sum := r.lines.Sum(); read.Sum != sum || read.Objects != r.count {
		return nil, broken(line, fmt.Errorf("%d objects with the sum %s, where it says %d with %s", r.count, sum, read.Objects, read.Sum))
	}
	return nil, io.EOF
}
