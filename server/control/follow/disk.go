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

	"github.com/headgate/headgate/server/control"
)

// A disk stores the last rules of a node in one file. The file has a line that names the source, then a snapshot, then
// the changes since the snapshot. The snapshot and each change are a part in the format of control.Writer. Changes are
// appended. An incomplete last change is ignored. A disk is not safe for concurrent use.
type disk struct {
	path        string
	origin      string   // name of the source
	lockFile    *os.File // nil if the disk is read-only
	readOnlyErr error    // why the disk is read-only

	file         *os.File     // for appending; nil if there is none yet
	size         int64        // number of valid bytes in the file
	snapshotSize int64        // number of bytes of the label and the snapshot
	pending      bytes.Buffer // changes that could not be written yet
}

// A label is the first line of the file.
type label struct {
	Format int    `json:"headgate_rules"`
	Origin string `json:"origin"`
}

const (
	diskFormat = 1
	// maxPending is the maximum size of the changes that wait for disk space. If it is exceeded, all objects are
	// fetched again.
	maxPending = 8 << 20
	// The file is replaced when its changes are larger than minAdded, and larger than half of the snapshot.
	minAdded = 1 << 20
)

// openDisk opens the file of a namespace in a directory, which it creates if missing. A file on a read-only disk can
// still be read.
func openDisk(dir, namespace, origin string) (*disk, error) {
	d := &disk{path: filepath.Join(dir, "rules-"+url.PathEscape(namespace)+".ndjson"), origin: origin}
	if d.lockFile, d.readOnlyErr = openLock(dir, d.path+".lock"); d.lockFile == nil {
		return d, nil
	}
	if err := lock(d.lockFile); err != nil {
		_ = d.lockFile.Close() // it was only needed for the lock
		return nil, fmt.Errorf("%s: another process stores its rules there: %w", d.path, err)
	}
	return d, nil
}

// openLock opens the lock file, and creates it and its directory if missing.
func openLock(dir, path string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

func (d *disk) close() error {
	var errs []error
	for _, f := range []*os.File{d.file, d.lockFile} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	d.file, d.lockFile = nil, nil
	return errors.Join(errs...)
}

// A partReader reads one part, up to and including its last line.
type partReader struct {
	src      *bufio.Reader
	buffered []byte // rest of the line that was read last
	consumed int64  // number of bytes returned by Read
	done     bool   // the last line was read
}

// endMark is the beginning of the last line of a part.
var endMark = []byte(`{"end":true,`)

func (p *partReader) Read(buffer []byte) (int, error) {
	if len(p.buffered) == 0 {
		if p.done {
			return 0, io.EOF
		}
		line, err := p.src.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) { // a long line is read in pieces
			return 0, err
		}
		p.buffered, p.done = line, err == nil && bytes.HasPrefix(line, endMark)
	}
	n := copy(buffer, p.buffered)
	p.buffered = p.buffered[n:]
	p.consumed += int64(n)
	return n, nil
}

// load reads the file. It passes the snapshot to the first sink. For each change, it calls next, passes the change to
// the returned sink, and then calls the returned function. load reports whether the file has the origin of the disk.
// The error is fs.ErrNotExist if there is no file. load truncates the file at the first change that is broken.
func (d *disk) load(first Sink, next func() (Sink, func() error)) (sameOrigin bool, err error) {
	f, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err != nil && !notExist(err) {
		d.readOnlyErr = cmp.Or(d.readOnlyErr, err)
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
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // reading a pipe would block
		return false, cmp.Or(err, fmt.Errorf("%s: %w: not a regular file", d.path, control.ErrBroken))
	}
	from := bufio.NewReaderSize(f, 64<<10)
	line, err := from.ReadSlice('\n')
	var l label
	switch {
	case err != nil || json.Unmarshal(line, &l) != nil || l.Format < 1:
		return false, fmt.Errorf("%s: %w: invalid first line", d.path, control.ErrBroken)
	case l.Format != diskFormat:
		return false, fmt.Errorf("%s: written by a newer version: its format is %d, and this version reads %d",
			d.path, l.Format, diskFormat)
	}
	d.size = int64(len(line))
	if err := d.loadPart(from, first); err != nil {
		return false, fmt.Errorf("%s: %w", d.path, err)
	}
	d.snapshotSize = d.size
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
			// The change is incomplete, or does not continue from the previous part. All previous parts are valid.
			if d.readOnlyErr == nil {
				d.readOnlyErr = f.Truncate(d.size)
			}
			break
		}
	}
	if d.readOnlyErr != nil {
		return l.Origin == d.origin, nil
	}
	if _, err := f.Seek(d.size, io.SeekStart); err != nil {
		return false, fmt.Errorf("%s: %w", d.path, err)
	}
	d.file = f
	return l.Origin == d.origin, nil
}

// loadPart passes one part to a sink. It returns io.EOF if there is none.
func (d *disk) loadPart(from *bufio.Reader, sink Sink) error {
	if _, err := from.Peek(1); errors.Is(err, io.EOF) {
		return io.EOF
	}
	p := &partReader{src: from}
	r, err := control.NewReader(p)
	if err != nil {
		return err
	}
	if err := drain(r, sink); err != nil {
		return err
	}
	d.size += p.consumed
	return nil
}

// A draft is a file that is being written to replace the current one.
type draft struct {
	file   *os.File
	buffer *bufio.Writer
	writer *control.Writer
	header control.Header
}

func (d *disk) newDraft(h control.Header) (*draft, error) {
	f, err := os.OpenFile(d.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	w := &draft{file: f, buffer: bufio.NewWriterSize(f, 64<<10), header: h}
	line, err := json.Marshal(label{diskFormat, d.origin})
	if err == nil {
		_, err = w.buffer.Write(append(line, '\n'))
	}
	if err == nil {
		w.writer, err = control.NewWriter(w.buffer, h)
	}
	if err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

// discard deletes the draft.
func (w *draft) discard() {
	_ = w.file.Close() // the file is deleted, so its content does not matter
	_ = os.Remove(w.file.Name())
}

// replace replaces the file by a draft.
func (d *disk) replace(w *draft) (err error) {
	defer func() {
		if err != nil {
			w.discard()
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
		_ = d.file.Close() // replaced
	}
	d.file, d.size, d.snapshotSize = w.file, size, size
	d.pending.Reset()
	return nil
}

// add appends a change in the format of control.Writer. If the disk is full, the change is kept for the next call.
func (d *disk) add(change []byte) error {
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
	d.pending.Reset()
	return nil
}

// abandon closes the file, because changes are missing at its end. It must be replaced.
func (d *disk) abandon() {
	if d.file != nil {
		_ = d.file.Close() // everything was synced
	}
	d.file = nil
	d.pending.Reset()
}

// errNoFile means that changes cannot be appended until a snapshot is written.
var errNoFile = errors.New("there is no file to append to")

// isOversized reports whether the changes are so large that the file should be replaced by a new snapshot.
func (d *disk) isOversized() bool {
	return d.file != nil && d.size-d.snapshotSize > max(minAdded, d.snapshotSize/2)
}

// notExist reports whether an error says that a file does not exist.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
