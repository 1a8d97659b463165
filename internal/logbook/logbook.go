// Package logbook is a log for tests to look into while others write to it.
package logbook

import (
	"bytes"
	"log/slog"
	"sync"
)

// A Book holds what was written to it. The zero Book is empty and ready, and safe for concurrent use.
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

// String returns what stands in the book so far.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns one that writes lines of text to the book.
func (b *Book) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
