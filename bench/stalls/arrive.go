package stalls

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Arrivals are requests from another process, as from a network: a waiting goroutine is woken as in a server.
type Arrivals struct {
	start time.Duration // by the machine's clock
	child *child
	out   io.ReadCloser
}

// Arrive sends requests at an interval; times are relative to start. The program must have called Main.
func Arrive(start time.Time, every time.Duration) (*Arrivals, error) {
	began, err := machineTimeOf(start)
	if err != nil {
		return nil, err
	}
	c, out, err := startChild(arrivalsEach, int(every))
	if err != nil {
		return nil, fmt.Errorf("start the sender of requests: %w", err)
	}
	return &Arrivals{start: began, child: c, out: out}, nil
}

// Next waits for the next request and returns when it was sent.
func (a *Arrivals) Next() (time.Duration, error) {
	var sent [8]byte
	if _, err := io.ReadFull(a.out, sent[:]); err != nil {
		return 0, fmt.Errorf("wait for a request: %w", err)
	}
	return time.Duration(binary.NativeEndian.Uint64(sent[:])) - a.start, nil
}

// Close stops the requests.
func (a *Arrivals) Close() {
	a.child.stop()
	_ = a.out.Close() // so that it does not block on a write
	a.child.wait()
}
