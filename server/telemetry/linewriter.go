package telemetry

import (
	"io"
	"sync"
)

// maxBatch is how many bytes of a batch are held before they are written.
const maxBatch = 64 << 10

// A LineWriter writes the lines of a log to another writer: one line with each call or, during a Batch, many lines. It
// is safe for concurrent use.
type LineWriter struct {
	mu      sync.Mutex
	to      io.Writer
	batches int // number of calls of Batch in progress
	held    []byte
}

// NewLineWriter returns a LineWriter above another writer.
func NewLineWriter(to io.Writer) *LineWriter { return &LineWriter{to: to} }

// Write writes a line, or holds it for the end of the batch.
func (w *LineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.batches == 0 {
		return w.to.Write(line)
	}
	w.held = append(w.held, line...)
	if len(w.held) >= maxBatch {
		if err := w.flush(); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}

// Batch calls write, which must not take long: lines of the log are held until it returns.
func (w *LineWriter) Batch(write func()) {
	w.mu.Lock()
	w.batches++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.batches--
		_ = w.flush() // an error of the log cannot be logged
	}()
	write()
}

// flush writes the held lines. mu is held.
func (w *LineWriter) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.to.Write(w.held)
	w.held = w.held[:0]
	return err
}
