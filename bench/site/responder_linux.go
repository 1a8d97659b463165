package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// RunResponder is the upstream. It sends the same response to every request with little CPU time, so that the core that
// it shares with the load does not limit a proxy. It prints its address, and serves until in ends. It reads orders for
// loads with a constant rate from in, and sends these loads itself between its responses. It has only one thread, so
// that the result does not depend on which of several threads gets the core.
func RunResponder(in io.Reader, out *json.Encoder) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPoller()
	if err != nil {
		return err
	}
	defer p.close()
	listener, address, err := listenLoopback()
	if err != nil {
		return err
	}
	defer closeAll(listener)
	orders, silence, err := newBell(in)
	if err != nil {
		return err
	}
	defer silence()
	r := &responder{poller: p, listener: listener, answer: upstreamAnswer(UpstreamBody), large: upstreamAnswer(LargeBody), rests: map[int][]byte{}}
	defer r.hangUp()
	for _, fd := range []int{listener, orders.fd} {
		if err := p.add(fd); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	if err := out.Encode(Listening{Address: address}); err != nil {
		return err
	}
	for {
		events, err := p.wait()
		if err != nil {
			return err
		}
		for _, e := range events {
			if int(e.Fd) != orders.fd {
				if err := r.heed(int(e.Fd)); err != nil {
					return err
				}
				continue
			}
			order, ok := orders.next()
			if !ok {
				return nil
			}
			if err := r.pace(order); err != nil {
				return err
			}
			if err := out.Encode(paceDone{order.Into}); err != nil {
				return err
			}
			break // what else was to be read has been, or will be told of again
		}
	}
}

// pace runs a load and writes its result.
func (r *responder) pace(o PaceOrder) error {
	measured, err := pacedOn(r.poller, o, r.heed)
	if err != nil {
		return err
	}
	text, err := json.Marshal(measured)
	if err != nil {
		return err
	}
	return os.WriteFile(o.Into, text, 0o644)
}

// heed handles a descriptor that is ready.
func (r *responder) heed(fd int) error {
	if fd == r.listener {
		return r.accept(fd)
	}
	if _, ok := r.rests[fd]; !ok {
		return nil // it was closed meanwhile
	}
	return r.serve(fd)
}

// A responder has the connections of the upstream.
type responder struct {
	poller   *poller
	listener int
	answer   []byte
	large    []byte         // the answer with LargeBody
	rests    map[int][]byte // the beginnings of requests that have not come whole
	buffer   [16 << 10]byte
}

func (r *responder) accept(listener int) error {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if err = plain(fd); err == nil {
			err = r.poller.add(fd)
		}
		if err != nil {
			closeAll(fd)
			return fmt.Errorf("accept: %w", err)
		}
		r.rests[fd] = nil
	}
}

// serve responds to the requests of a connection. It closes the connection if the client has closed it or does not read
// the responses.
func (r *responder) serve(fd int) error {
	held := copy(r.buffer[:], r.rests[fd])
	n, err := unix.Read(fd, r.buffer[held:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if n <= 0 {
		r.drop(fd)
		return nil
	}
	rest := r.buffer[:held+n]
	for {
		large, whole, after, err := takeRequest(rest)
		if err != nil {
			return err
		}
		if !whole {
			break
		}
		rest = after
		answer := r.answer
		if large {
			answer = r.large
		}
		if n, _ := unix.Write(fd, answer); n < len(answer) {
			r.drop(fd)
			return nil
		}
	}
	if len(rest) == len(r.buffer) {
		return fmt.Errorf("a request is longer than %d bytes", len(r.buffer))
	}
	if held > 0 || len(rest) > 0 {
		r.rests[fd] = append(r.rests[fd][:0], rest...)
	}
	return nil
}

func (r *responder) drop(fd int) {
	delete(r.rests, fd)
	closeAll(fd)
}

func (r *responder) hangUp() {
	for fd := range r.rests {
		closeAll(fd)
	}
}
