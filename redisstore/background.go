package redisstore

import (
	"context"
	"sync"
)

// background is the goroutines of a store, which Close ends.
type background struct {
	life    context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // held to start a goroutine, and to close
	closed bool
}

func newBackground() *background {
	b := new(background)
	b.life, b.cancel = context.WithCancel(context.Background())
	return b
}

// start runs a function in a goroutine. It returns false if the store is closed.
func (b *background) start(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(run)
	return true
}

// close refuses new goroutines and ends the context of the others, without waiting for them. It returns false if it was
// called before.
func (b *background) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closed = true
	b.cancel()
	return true
}
