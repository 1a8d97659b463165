package topology

import (
	"net"
	"sync"
)

// A batchWriter delays small writes so that commands are sent in batches.
//
// The client library writes whenever its queue is empty, so on a busy core it writes most commands one by one. The
// system calls of this process and the server then take more time than the decision in the server. A batchWriter
// collects commands until they fill a packet, but only while many calls are active and the reply to an earlier write
// has not arrived. When that reply arrives, the collected commands are sent. So no command waits longer than one round
// trip.
//
// The lock is released while a goroutine writes to the connection, because a write may take long: if the server runs on
// the same core, it may occupy the core for some milliseconds as soon as it gets the data. In this time, the goroutine
// that reads replies continues, and leaves the next batch to the goroutine that writes.
type batchWriter struct {
	conn net.Conn
	busy func() bool // reports whether many calls are active

	mu            sync.Mutex
	awaitingReply bool // something was written since the last reply
	sending       bool // a goroutine is in send
	// flushAfterSend tells the goroutine in send to send the collected commands or, if there are none, to clear
	// awaitingReply.
	flushAfterSend bool
	collected      []byte
	spare          []byte // the buffer of the last batch, for reuse
	err            error  // the first error of a write; all later writes return it
}

// packetSize is the number of bytes that fit into one packet on most networks.
const packetSize = 1400

// write sends commands, or collects them to be sent later.
func (w *batchWriter) write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	// A command may wait if three conditions hold: replied will be called and send it, the commands do not fill a packet,
	// and other commands are likely to follow.
	mayWait := w.awaitingReply && len(w.collected)+len(b) < packetSize && w.busy()
	if mayWait || w.sending {
		w.collected = append(w.collected, b...)
		w.flushAfterSend = w.flushAfterSend || !mayWait
		return len(b), nil
	}
	size := len(b)
	if len(w.collected) > 0 {
		w.collected = append(w.collected, b...)
		b = w.takeBatch()
	}
	if err := w.send(b); err != nil {
		return 0, err
	}
	return size, nil
}

// replied is called when replies have arrived. It sends the collected commands.
func (w *batchWriter) replied() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
	case w.sending: // this may be the reply to the batch that is being sent
		w.flushAfterSend = true
	case len(w.collected) == 0:
		w.awaitingReply = false
	default:
		if w.send(w.takeBatch()) != nil {
			_ = w.conn.Close() // so that the calls of the batch, which were told that the write succeeded, fail
		}
	}
}

// takeBatch returns the collected commands. They are valid until the next takeBatch.
func (w *batchWriter) takeBatch() []byte {
	b := w.collected
	if cap(w.spare) > 4*packetSize { // do not keep the memory of an unusually large batch
		w.spare = nil
	}
	w.collected, w.spare = w.spare[:0], b
	return b
}

// send sends b, then the commands collected meanwhile. The caller holds the lock; send releases it while it writes.
func (w *batchWriter) send(b []byte) error {
	w.sending, w.awaitingReply = true, true
	for {
		w.mu.Unlock()
		_, err := w.conn.Write(b)
		w.mu.Lock()
		if w.err = err; err != nil || !w.flushAfterSend {
			break
		}
		w.flushAfterSend = false
		if len(w.collected) == 0 {
			w.awaitingReply = false
			break
		}
		b = w.takeBatch()
	}
	w.sending = false
	return w.err
}
