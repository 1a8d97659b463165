// Package lines writes and reads values as lines of JSON. The last line has the number and the checksum of the lines in
// front of it, by which a reader knows that the data is complete.
package lines

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// content is what both sides know of the lines so far.
type content struct {
	counted string // name of count in the last line
	count   int    // number of lines after the first one, which is a header
	sum     hash.Hash
}

func newContent(counted string) content {
	return content{counted: counted, count: -1, sum: sha256.New()}
}

// add adds a line without its line feed.
func (c *content) add(line []byte) {
	c.sum.Write(line)
	c.sum.Write([]byte{'\n'})
	c.count++
}

// lastLine returns the last line, without its line feed.
func (c *content) lastLine() string {
	return fmt.Sprintf(`%s%q:%d,"sha256":"%x"}`, lastLinePrefix, c.counted, c.count, c.sum.Sum(nil))
}

const lastLinePrefix = `{"end":true,`

// A Writer writes lines. Create one with NewWriter.
type Writer struct {
	w        io.Writer
	maxBytes int
	content  content
	line     bytes.Buffer
}

// NewWriter returns a Writer of lines of at most maxBytes. In the last line, their number is named counted.
func NewWriter(w io.Writer, maxBytes int, counted string) *Writer {
	return &Writer{w: w, maxBytes: maxBytes, content: newContent(counted)}
}

// Write writes a value as a line. The first line is not counted.
func (w *Writer) Write(v any) error {
	w.line.Reset()
	encoder := json.NewEncoder(&w.line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	if w.line.Len() > w.maxBytes {
		return fmt.Errorf("line of %d bytes: want at most %d", w.line.Len(), w.maxBytes)
	}
	w.content.add(bytes.TrimSuffix(w.line.Bytes(), []byte{'\n'}))
	_, err := w.w.Write(w.line.Bytes())
	return err
}

// Close writes the last line. A Reader refuses data without it.
func (w *Writer) Close() error {
	_, err := io.WriteString(w.w, w.content.lastLine()+"\n")
	return err
}

// A Reader reads lines. Create one with NewReader.
type Reader struct {
	lines   *bufio.Scanner
	content content
}

// NewReader returns a Reader of lines of at most maxBytes. In the last line, their number is named counted.
func NewReader(r io.Reader, maxBytes int, counted string) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxBytes+1)
	return &Reader{lines: lines, content: newContent(counted)}
}

// Next reads a line into a value. It returns false at the end of complete data. Errors begin with the number of the
// line.
func (r *Reader) Next(into any) (bool, error) {
	more, err := r.next(into)
	if err != nil {
		err = fmt.Errorf("line %d: %w", r.content.count+2, err)
	}
	return more, err
}

func (r *Reader) next(into any) (more bool, err error) {
	if !r.lines.Scan() || r.lines.Err() != nil { // with an error, the line is incomplete
		return false, cmp.Or(r.lines.Err(), io.ErrUnexpectedEOF)
	}
	line := r.lines.Bytes()
	if bytes.HasPrefix(line, []byte(lastLinePrefix)) {
		if want := r.content.lastLine(); string(line) != want || r.content.count < 0 {
			return false, fmt.Errorf("the last line is %.200s, want %s", line, want)
		}
		return false, nil
	}
	if err := json.Unmarshal(line, into); err != nil {
		return false, err
	}
	r.content.add(line)
	return true, nil
}
