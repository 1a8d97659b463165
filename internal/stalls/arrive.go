package stalls

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Arrivals are requests that come from a process of their own, as from a network: whoever waits for one is woken as a server is.
type Arrivals struct {
	start time.Duration // by the machine's clock
	child *child
	out   io.ReadCloser
}

// Arrive sends requests so often; times are from the start. The program has called Main.
func Arrive(start time.Time, every time.Duration) (*Arrivals, error) {
	began, err := onMachine(start)
	if err != nil {
		return nil, err
	}
	c, out, err := startChild(arrivalsEach, int(every))
	if err != nil {
		return nil, fmt.Errorf("have requests sent: %w", err)
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

// Close ends them.
func (a *Arrivals) Close() {
	a.child.tell()
	_ = a.out.Close() // so that it does not wait for somebody who reads what it has sent
	a.child.wait()
}
