// Package lines writes and reads values as lines of JSON. The last line has the number and the checksum of all other
// lines. With it, a reader detects incomplete or damaged data.
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

// content has the count and the checksum of the lines so far.
type content struct {
	countField string // name of the field with the count in the last line
	count      int    // number of lines after the first one, which is a header
	sum        hash.Hash
}

func newContent(countField string) content {
	return content{countField: countField, count: -1, sum: sha256.New()}
}

// add adds a line without its line feed.
func (c *content) add(line []byte) {
	c.sum.Write(line)
	c.sum.Write([]byte{'\n'})
	c.count++
}

// lastLine returns the last line, without its line feed.
func (c *content) lastLine() string {
	return fmt.Sprintf(`%s%q:%d,"sha256":"%x"}`, lastLinePrefix, c.countField, c.count, c.sum.Sum(nil))
}

const lastLinePrefix = `{"end":true,`

// A Writer writes lines. Create one with NewWriter.
type Writer struct {
	w        io.Writer
	maxBytes int
	content  content
	line     bytes.Buffer
}

// NewWriter returns a Writer of lines of at most maxBytes. In the last line, their number is the field countField.
func NewWriter(w io.Writer, maxBytes int, countField string) *Writer {
	return &Writer{w: w, maxBytes: maxBytes, content: newContent(countField)}
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

// NewReader returns a Reader of lines of at most maxBytes. In the last line, their number is the field countField.
func NewReader(r io.Reader, maxBytes int, countField string) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxBytes+1)
	return &Reader{lines: lines, content: newContent(countField)}
}

// Next decodes a line into a value. It returns false after the last line if the data is complete. Errors begin with the
// number of the line.
func (r *Reader) Next(into any) (bool, error) {
	more, err := r.next(into)
	if err != nil {
		err = fmt.Errorf("line %d: %w", r.content.count+2, err)
	}
	return more, err
}

func (r *Reader) next(into any) (more bool, err error) {
	if !r.lines.Scan() || r.lines.Err() != nil { // if there is an error, the line is incomplete
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
