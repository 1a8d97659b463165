// Package lines writes and reads values as lines of JSON, with a checksum over the counted lines, by which a reader
// knows that the data is complete.
package lines

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// A Writer writes lines. Create one with NewWriter.
type Writer struct {
	w        io.Writer
	maxBytes int
	sum      hash.Hash
	line     bytes.Buffer
}

// NewWriter returns a Writer of lines of at most maxBytes.
func NewWriter(w io.Writer, maxBytes int) *Writer {
	return &Writer{w: w, maxBytes: maxBytes, sum: sha256.New()}
}

// Write writes a value as a line.
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
	w.sum.Write(w.line.Bytes())
	_, err := w.w.Write(w.line.Bytes())
	return err
}

// Sum returns the SHA-256 of all lines so far.
func (w *Writer) Sum() string { return hex.EncodeToString(w.sum.Sum(nil)) }

// A Reader reads lines. Create one with NewReader.
type Reader struct {
	lines *bufio.Scanner
	sum   hash.Hash
}

// NewReader returns a Reader of lines of at most maxBytes.
func NewReader(r io.Reader, maxBytes int) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxBytes+1)
	return &Reader{lines: lines, sum: sha256.New()}
}

// Next reads a line into a value. It returns io.ErrUnexpectedEOF if there is none.
func (r *Reader) Next(into any) error {
	if !r.lines.Scan() {
		if err := r.lines.Err(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	err := json.Unmarshal(r.lines.Bytes(), into)
	if failed := r.lines.Err(); failed != nil {
		return failed // the line is incomplete
	}
	return err
}

// Count adds the last line to the checksum.
func (r *Reader) Count() {
	r.sum.Write(r.lines.Bytes())
	r.sum.Write([]byte{'\n'})
}

// Sum returns the SHA-256 of all counted lines.
func (r *Reader) Sum() string { return hex.EncodeToString(r.sum.Sum(nil)) }
