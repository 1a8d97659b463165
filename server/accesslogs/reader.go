package accesslogs

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// A Format is a format of log lines.
type Format string

// The formats. With Auto, the Reader uses the format of the first line whose format it recognizes.
const (
	Auto     Format = "auto"
	Common   Format = "common"   // Apache's and nginx's common log format
	Combined Format = "combined" // common with referrer and user agent
	JSON     Format = "json"     // one object on each line
	CSV      Format = "csv"      // with a line of column names
)

// Formats lists all formats.
var Formats = []Format{Auto, Common, Combined, JSON, CSV}

// Options configure a Reader.
type Options struct {
	// Format is the format of the lines. Default Auto.
	Format Format
	// MaxLine is the maximum length of a line in bytes. Longer lines are skipped. Default 1 MiB.
	MaxLine int
}

const defaultMaxLine = 1 << 20

// A Request is one line of a log.
type Request struct {
	Time time.Time
	// Status is the HTTP status of the response, or 0 if the line has none.
	Status int
	// Attributes has the attributes that rules use: ip, user, method, host, path, query.<name>, header.<name> and others.
	Attributes map[string]string
}

// Stats are figures of a Reader.
type Stats struct {
	Format   Format `json:"format"`
	Lines    int64  `json:"lines"`
	Requests int64  `json:"requests"`
	// Skipped counts malformed lines. Examples has the first of them.
	Skipped  int64     `json:"skipped"`
	Examples []Skipped `json:"examples,omitempty"`
	// WholeSeconds reports whether all times so far are whole seconds.
	WholeSeconds bool `json:"whole_seconds"`
	// Incomplete is the reason why the rest of a compressed log could not be read, or "".
	Incomplete string `json:"incomplete,omitempty"`
}

// A Skipped describes a malformed line.
type Skipped struct {
	Line   int64  `json:"line"` // its number in the file, from 1
	Reason string `json:"reason"`
	Text   string `json:"text"` // the beginning of the line
}

const (
	maxExamples = 5
	maxExample  = 120 // maximum length of an example, in bytes
)

// A Reader reads the requests of a log. Only Progress may be called while another goroutine reads.
type Reader struct {
	options Options
	lines   *bufio.Reader
	closers []io.Closer
	done    atomic.Int64 // bytes of the file that were read
	size    int64        // of the file; 0 if it is unknown
	stats   Stats
	parse   func(line []byte, into *Request) error // nil until the format is known
	gzip    bool                                   // the log is compressed
	line    []byte                                 // the current line
	number  int64                                  // number of the current line in the file
}

// Open opens a log file, which may be compressed with gzip. The name "-" stands for stdin.
func Open(name string, stdin io.Reader, o Options) (*Reader, error) {
	if name == "-" {
		return NewReader(stdin, o)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	r.closers = append(r.closers, f)
	if info, err := f.Stat(); err == nil {
		r.size = info.Size()
	}
	return r, nil
}

// NewReader returns a Reader of the log lines in from, which may be compressed with gzip.
func NewReader(from io.Reader, o Options) (*Reader, error) {
	if o.Format == "" {
		o.Format = Auto
	}
	if o.MaxLine == 0 {
		o.MaxLine = defaultMaxLine
	}
	r := &Reader{options: o, stats: Stats{Format: o.Format, WholeSeconds: true}}
	if err := r.setFormat(o.Format); err != nil {
		return nil, err
	}
	const buffer = 256 << 10
	r.lines = bufio.NewReaderSize(&countingReader{from, &r.done}, buffer)
	if magic, err := r.lines.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(r.lines)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r.lines, r.gzip = bufio.NewReaderSize(unzipped, buffer), true
	}
	return r, nil
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Progress returns how many bytes of the file were read, and the size of the file, or 0 if it is unknown.
func (r *Reader) Progress() (done, size int64) { return r.done.Load(), r.size }

// Stats returns the current figures.
func (r *Reader) Stats() Stats { return r.stats }

// Close closes the file.
func (r *Reader) Close() error {
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Read reads the next request into a Request, and reuses its map of Attributes. It skips malformed lines. The error is
// io.EOF at the end of the log, or an error of reading the file. A compressed log that is damaged, for example because
// the end of the file is missing, ends at the damage, and Stats.Incomplete has the reason.
func (r *Reader) Read(into *Request) error {
	for {
		line, whole, err := r.next()
		if r.gzip && err != nil && !errors.Is(err, io.EOF) {
			r.stats.Incomplete = err.Error()
			return io.EOF
		}
		if err != nil {
			return err
		}
		r.stats.Lines++
		if !whole {
			r.Skip(errTooLong)
			continue
		}
		if r.parse == nil {
			format, found := detect(line)
			if !found {
				r.Skip(errFormat)
				continue
			}
			if err := r.setFormat(format); err != nil {
				return err
			}
		}
		if into.Attributes == nil {
			into.Attributes = make(map[string]string, 8)
		}
		clear(into.Attributes)
		into.Time, into.Status = time.Time{}, 0
		switch err = r.parse(line, into); {
		case errors.Is(err, errHeaderLine):
			r.stats.Lines--
		case err != nil:
			r.Skip(err)
		default:
			r.stats.Requests++
			r.stats.WholeSeconds = r.stats.WholeSeconds && into.Time.Nanosecond() == 0
			return nil
		}
	}
}

// Skip counts the current line as malformed. If Read has returned its request, the caller must call Unread instead.
func (r *Reader) Skip(reason error) { r.skip(r.Line(), reason) }

func (r *Reader) skip(line Line, reason error) {
	r.stats.Skipped++
	if len(r.stats.Examples) < maxExamples {
		r.stats.Examples = append(r.stats.Examples, Skipped{
			Line: line.number, Reason: reason.Error(), Text: string(bytes.ToValidUTF8([]byte(line.text), []byte("\ufffd"))),
		})
	}
}

// A Line identifies a line of the log, for Unread.
type Line struct {
	number int64
	text   string // the beginning of the line
}

// Line returns the current line.
func (r *Reader) Line() Line { return Line{r.number, string(r.line[:min(len(r.line), maxExample)])} }

// Unread counts a line whose request Read has returned as a malformed line, because the caller refuses it.
func (r *Reader) Unread(line Line, reason error) {
	r.stats.Requests--
	r.skip(line, reason)
}

// The reasons why lines are skipped.
var (
	errTooLong    = errors.New("too long")
	errHeaderLine = errors.New("column names")
	errFormat     = errors.New("not in the format of the log")
	errTime       = errors.New("no valid time")
	errNothing    = errors.New("no attribute of a request")
)

// next returns the next line that is not empty. whole is false if the line was cut because it is too long.
func (r *Reader) next() (line []byte, whole bool, err error) {
	for {
		r.line = r.line[:0]
		whole := true
		for {
			part, err := r.lines.ReadSlice('\n')
			if len(r.line)+len(part) > r.options.MaxLine {
				whole = false
				part = part[:max(0, r.options.MaxLine-len(r.line))]
			}
			r.line = append(r.line, part...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			if err != nil && (!errors.Is(err, io.EOF) || len(r.line) == 0) {
				return nil, false, err
			}
			break
		}
		r.number++
		r.line = bytes.TrimSpace(bytes.TrimPrefix(r.line, []byte("\ufeff")))
		if len(r.line) > 0 {
			return r.line, whole, nil
		}
	}
}
