package topology

import (
	"net"
	"sync"
)

// A batchWriter delays small writes so that commands are sent in batches.
//
// The client library writes as soon as its queue is empty, so on a busy core most commands are written alone, and the
// system calls here and at the server cost more than the decision. A batchWriter collects commands until they fill a
// packet, but only while many calls are active and a reply to an earlier write is due. That reply sends the collected
// commands, so they never wait longer than for the server.
//
// The lock is not held while sending. A write wakes the server, which may take the core for some milliseconds. The
// reader of replies goes on meanwhile and leaves the next batch to the sender.
type batchWriter struct {
	conn net.Conn
	busy func() bool // many calls are active

	mu       sync.Mutex
	replyDue bool // something was written since the last reply
	sending  bool
	// checkAfterSend tells the sender to send the collected commands or, if there are none, to clear replyDue.
	checkAfterSend bool
	collected      []byte
	spare          []byte // the buffer of the last batch, for reuse
	err            error  // of sending
}

// packetSize fits into one packet on most networks.
const packetSize = 1400

func (w *batchWriter) write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	mayWait := w.replyDue && len(w.collected)+len(b) < packetSize && w.busy()
	if mayWait || w.sending {
		w.collected = append(w.collected, b...)
		w.checkAfterSend = w.checkAfterSend || !mayWait
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
	case w.sending: // the reply may be to the batch that is being sent
		w.checkAfterSend = true
	case len(w.collected) == 0:
		w.replyDue = false
	case w.send(w.takeBatch()) != nil:
		_ = w.conn.Close() // so that callers waiting for replies learn of it
	}
}

// takeBatch returns the collected commands. They are valid until the next takeBatch.
func (w *batchWriter) takeBatch() []byte {
	b := w.collected
	if cap(w.spare) > 4*packetSize {
		w.spare = nil
	}
	w.collected, w.spare = w.spare[:0], b
	return b
}

// send sends b, then the commands collected meanwhile. It releases the lock while it writes.
func (w *batchWriter) send(b []byte) error {
	w.sending, w.replyDue = true, true
	for {
		w.mu.Unlock()
		_, err := w.conn.Write(b)
		w.mu.Lock()
		if w.err = err; err != nil || !w.checkAfterSend {
			break
		}
		w.checkAfterSend = false
		if len(w.collected) == 0 {
			w.replyDue = false
			break
		}
		b = w.takeBatch()
	}
	w.sending = false
	return w.err
}
