package h2

import (
	"runtime"
	"sync"
)

// idlePerCore is the maximum number of idle workers for each core.
const idlePerCore = 64

// workers are goroutines that run handlers. A goroutine that has run a handler waits for the next one, because its
// stack has already grown to the size that handlers need.
type workers struct {
	mu     sync.Mutex
	idle   []*worker
	closed bool
}

// A worker is a goroutine that runs handlers.
type worker struct{ next chan *stream }

// serve passes a stream to an idle worker, or to a new one.
func (w *workers) serve(st *stream) {
	w.mu.Lock()
	last := len(w.idle) - 1
	if last < 0 {
		w.mu.Unlock()
		go w.run(&worker{next: make(chan *stream, 1)}, st)
		return
	}
	idle := w.idle[last]
	w.idle[last] = nil
	w.idle = w.idle[:last]
	w.mu.Unlock()
	idle.next <- st
}

func (w *workers) run(self *worker, st *stream) {
	for st != nil {
		st.serve()
		if !w.park(self) {
			return
		}
		st = <-self.next
	}
}

// park adds a worker to the idle workers. It returns false if there are enough of them.
func (w *workers) park(self *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.idle) >= idlePerCore*runtime.GOMAXPROCS(0) {
		return false
	}
	w.idle = append(w.idle, self)
	return true
}

// close ends all idle workers. The other workers end after their handlers.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, idle := range w.idle {
		close(idle.next)
	}
	w.idle = nil
}
