// Package logbook has a log buffer that tests can read while other goroutines write to it.
package logbook

import (
	"bytes"
	"log/slog"
	"sync"
)

// A Book holds log output. The zero Book is empty and ready to use. It is safe for concurrent use.
type Book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the book.
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the output so far.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes lines of text to the book.
func (b *Book) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
