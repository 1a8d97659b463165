package follow

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/headgate/headgate/control"
)

// A disk keeps what a node was last sent in one file: a line that says from whom it is, then everything, then what has
// changed since, each part in the form of control.Writer. Parts are added to the end, and the last one counts only if it is
// there to its last byte. One goroutine uses it.
type disk struct {
	path   string
	origin string
	locked *os.File // nil if it can only be read
	why    error    // it can only be read

	file     *os.File     // to add to; nil if there is none yet
	size     int64        // of what is known to be good
	whole    int64        // of that, what came first
	revision int64        // that it leads to
	pending  bytes.Buffer // what could not be written yet
}

// A label is the first line.
type label struct {
	Format int    `json:"headgate_rules"`
	Origin string `json:"origin"`
}

const (
	diskFormat = 1
	// maxPending is how much may wait for the disk to have room again. If there is more, everything is fetched anew.
	maxPending = 8 << 20
	// minAdded is how much is added to a file before it is written anew, or half of what it was if that is more.
	minAdded = 1 << 20
)

// openDisk opens the file of a namespace in a directory, and makes that if it is not there. Of a disk that cannot be written to, what
// is there can be read all the same.
func openDisk(dir, namespace, origin string) (*disk, error) {
	d := &disk{path: filepath.Join(dir, "rules-"+url.PathEscape(namespace)+".ndjson"), origin: origin}
	if d.locked, d.why = openLock(dir, d.path+".lock"); d.locked == nil {
		return d, nil
	}
	if err := lock(d.locked); err != nil {
		_ = d.locked.Close() // it was only to be held
		return nil, fmt.Errorf("%s: another process keeps its rules there: %w", d.path, err)
	}
	return d, nil
}

// openLock opens the file that whoever writes holds, and makes it and its directory if they are not there.
func openLock(dir, path string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func (d *disk) close() error {
	var errs []error
	for _, f := range []*os.File{d.file, d.locked} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	d.file, d.locked = nil, nil
	return errors.Join(errs...)
}

// A part is read up to its end line, so that what follows stays in the file.
type part struct {
	from *bufio.Reader
	left []byte // of the line that was read last
	read int64
	done bool
}

var endMark = []byte(`{"end":true,`)

func (p *part) Read(into []byte) (int, error) {
	if len(p.left) == 0 {
		if p.done {
			return 0, io.EOF
		}
		line, err := p.from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a long line comes in pieces
			return 0, err
		}
		p.left, p.done = line, err == nil && bytes.HasPrefix(line, endMark)
	}
	n := copy(into, p.left)
	p.left = p.left[n:]
	p.read += int64(n)
	return n, nil
}

// load gives everything in the file to the first sink, and each change to one that next returns. It tells whether what is there
// comes from the same origin, and is fs.ErrNotExist if there is nothing. What is broken at the end is cut off.
func (d *disk) load(first Sink, next func() (Sink, func() error)) (same bool, err error) {
	f, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err != nil && !missing(err) {
		d.why = cmp.Or(d.why, err)
		f, err = os.Open(d.path)
	}
	if err != nil {
		return false, err
	}
	defer func() {
		if d.file != f {
			_ = f.Close() // it was only read
		}
	}()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // a pipe would be waited for
		return false, cmp.Or(err, fmt.Errorf("%s: %w: no file", d.path, control.ErrBroken))
	}
	from := bufio.NewReaderSize(f, 64<<10)
	line, err := from.ReadSlice('\n')
	var l label
	switch {
	case err != nil || json.Unmarshal(line, &l) != nil || l.Format < 1:
		return false, fmt.Errorf("%s: %w: its first line is not that of one", d.path, control.ErrBroken)
	case l.Format != diskFormat:
		return false, fmt.Errorf("%s: a newer version has written it: its form is %d, and this version reads %d", d.path, l.Format, diskFormat)
	}
	d.size = int64(len(line))
	if err := d.loadPart(from, first); err != nil {
		return false, fmt.Errorf("%s: %w", d.path, err)
	}
	d.whole = d.size
	for {
		sink, finish := next()
		err := d.loadPart(from, sink)
		if err == nil {
			err = finish()
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, control.ErrBroken) {
			break
		}
		if err != nil {
			// A change that was not written to its end, or is none of what is before it. What is before it is good.
			if d.why == nil {
				d.why = f.Truncate(d.size)
			}
			break
		}
	}
	if d.why != nil {
		return l.Origin == d.origin, nil
	}
	if _, err := f.Seek(d.size, io.SeekStart); err != nil {
		return false, fmt.Errorf("%s: %w", d.path, err)
	}
	d.file = f
	return l.Origin == d.origin, nil
}

// loadPart gives one part to a sink. It is io.EOF if there is no more.
func (d *disk) loadPart(from *bufio.Reader, to Sink) error {
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return io.EOF
	}
	p := &part{from: from}
	r, err := control.NewReader(p)
	if err != nil {
		return err
	}
	if err := drain(r, to); err != nil {
		return err
	}
	d.size += p.read
	d.revision = r.Header.Revision
	return nil
}

// A draft is a file that is to become the one that is kept.
type draft struct {
	file   *os.File
	buffer *bufio.Writer
	writer *control.Writer
	header control.Header
}

func (d *disk) draft(h control.Header) (*draft, error) {
	f, err := os.OpenFile(d.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	made := &draft{file: f, buffer: bufio.NewWriterSize(f, 64<<10), header: h}
	line, err := json.Marshal(label{diskFormat, d.origin})
	if err == nil {
		_, err = made.buffer.Write(append(line, '\n'))
	}
	if err == nil {
		made.writer, err = control.NewWriter(made.buffer, h)
	}
	if err != nil {
		made.drop()
		return nil, err
	}
	return made, nil
}

// drop forgets it.
func (w *draft) drop() {
	_ = w.file.Close() // nobody reads it
	_ = os.Remove(w.file.Name())
}

// replace puts a draft in the place of the file.
func (d *disk) replace(w *draft) (err error) {
	defer func() {
		if err != nil {
			w.drop()
		}
	}()
	if err := errors.Join(w.writer.Close(), w.buffer.Flush()); err != nil {
		return err
	}
	size, err := w.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(w.file.Name(), d.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(d.path)); err != nil {
		return err
	}
	if d.file != nil {
		_ = d.file.Close() // it is no longer the one
	}
	d.file, d.size, d.whole, d.revision = w.file, size, size, w.header.Revision
	d.pending.Reset()
	return nil
}

// add adds a change, which is written as control.Writer does it. If there is no room it waits for the next time.
func (d *disk) add(change []byte, leadsTo int64) error {
	if d.file == nil {
		return errNoFile
	}
	if d.pending.Len()+len(change) > maxPending {
		d.abandon()
		return errNoFile
	}
	d.pending.Write(change)
	written, err := d.file.WriteAt(d.pending.Bytes(), d.size)
	if err == nil {
		err = d.file.Sync()
	}
	if err != nil {
		if written > 0 {
			err = errors.Join(err, d.file.Truncate(d.size))
		}
		return err
	}
	d.size += int64(d.pending.Len())
	d.revision = leadsTo
	d.pending.Reset()
	return nil
}

// abandon leaves the file behind as it is: it no longer leads to what is in force, and waits to be replaced.
func (d *disk) abandon() {
	if d.file != nil {
		_ = d.file.Close() // all of it was synced
	}
	d.file = nil
	d.pending.Reset()
}

// errNoFile is for a file that is not there or was left behind: it has to be written whole.
var errNoFile = errors.New("there is no file that it could be added to")

// grown tells whether so much was added that the file should be written anew.
func (d *disk) grown() bool { return d.file != nil && d.size-d.whole > max(minAdded, d.whole/2) }

// A name is that of an object.
type name struct {
	kind control.Kind
	id   string
}

// rewrite makes everything and all changes one part again.
func (d *disk) rewrite() error {
	var h control.Header
	changed := map[name]*control.Item{}
	if err := d.read(func(_ int, header control.Header) { h = header }, func(n int, item *control.Item) error {
		if n > 0 {
			kept := *item
			kept.Body = slices.Clone(item.Body)
			changed[name{item.Kind, item.ID}] = &kept
		}
		return nil
	}); err != nil {
		return err
	}
	h.Since = 0
	w, err := d.draft(h)
	if err != nil {
		return err
	}
	var rules, others []*control.Item
	for _, item := range changed {
		switch {
		case item.Deleted:
		case item.Kind == control.KindRule:
			rules = append(rules, item)
		default:
			others = append(others, item)
		}
	}
	write := func(list []*control.Item) error {
		for _, item := range list {
			if err := w.writer.Write(item); err != nil {
				return err
			}
		}
		return nil
	}
	err = d.read(func(int, control.Header) {}, func(n int, item *control.Item) error {
		if n > 0 {
			return errEnough
		}
		if item.Kind != control.KindRule { // rules come before all others
			if err := write(rules); err != nil {
				return err
			}
			rules = nil
		}
		if changed[name{item.Kind, item.ID}] != nil {
			return nil
		}
		return w.writer.Write(item)
	})
	if err == nil || errors.Is(err, errEnough) {
		err = errors.Join(write(rules), write(others))
	}
	if err != nil {
		w.drop()
		return err
	}
	return d.replace(w)
}

var errEnough = errors.New("enough")

// read reads the file, part by part.
func (d *disk) read(begin func(n int, h control.Header), each func(n int, item *control.Item) error) error {
	from := bufio.NewReaderSize(io.NewSectionReader(d.file, 0, d.size), 64<<10)
	if _, err := from.ReadSlice('\n'); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if _, err := from.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		r, err := control.NewReader(&part{from: from})
		if err != nil {
			return err
		}
		begin(n, r.Header)
		for {
			item, err := r.Next()
			if errors.Is(err, io.EOF) && !errors.Is(err, control.ErrBroken) {
				break
			}
			if err != nil {
				return err
			}
			if err := each(n, item); err != nil {
				return err
			}
		}
	}
}

// missing tells whether an error is that there is no file.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
