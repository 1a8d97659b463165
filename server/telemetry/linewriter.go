package telemetry

import (
	"io"
	"sync"
)

// maxBatch is the number of buffered bytes at which a batch is written before its end.
const maxBatch = 64 << 10

// A LineWriter writes lines of a log to another writer. It writes each line immediately, except during a Batch, when it
// combines lines into fewer writes. It is safe for concurrent use.
type LineWriter struct {
	mu      sync.Mutex
	to      io.Writer
	batches int // number of calls of Batch in progress
	held    []byte
}

// NewLineWriter returns a LineWriter that writes to another writer.
func NewLineWriter(to io.Writer) *LineWriter { return &LineWriter{to: to} }

// Write writes a line, or buffers it during a batch.
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

// Batch calls write, and buffers the lines of the log until it returns. write must return soon, because the lines of
// all goroutines are delayed.
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

// flush writes the buffered lines. w.mu must be locked.
func (w *LineWriter) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	_, err := w.to.Write(w.held)
	w.held = w.held[:0]
	return err
}
