package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// runPace sends requests to an address at a constant rate and tells how long answers took. Every request is due at a time
// fixed beforehand and its answer is timed from then, also if it had to wait for a connection: a server that is held up
// cannot hide that by being asked less.
func runPace(o paceOrder) (pacing, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPace(o)
	if err != nil {
		return pacing{}, err
	}
	defer p.close()
	return p.run()
}

// A pace is such a load under way.
type pace struct {
	order    paceOrder
	poller   *poller
	timer    int
	requests [][]byte
	start    time.Time
	total    int // requests to send
	unheard  int // of those, at the beginning, that are not recorded
	sent     int
	answered int
	lines    map[int]*line
	idle     chan *line // those that wait longest are used first, so that all are used alike
	took     histogram
	late     histogram
}

// A line is one connection. There is at most one request on it.
type line struct {
	fd   int
	free time.Duration // since when there has been none
	nth  int           // which request that is
	have int           // how much of its answer has come
	text [8 << 10]byte
}

func newPace(o paceOrder) (*pace, error) {
	unheard := int(o.Rate * o.Warming.Seconds())
	p := &pace{
		order: o, timer: -1, lines: map[int]*line{}, idle: make(chan *line, o.Connections),
		unheard: unheard, total: unheard + int(o.Rate*o.Length.Seconds()),
	}
	for _, text := range loadRequests() {
		p.requests = append(p.requests, []byte(text))
	}
	var err error
	if p.poller, err = newPoller(); err != nil {
		return nil, err
	}
	if err = p.open(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pace) open() (err error) {
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	if err := p.poller.add(p.timer); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for range p.order.Connections {
		fd, err := connect(p.order.Address)
		if err != nil {
			return err
		}
		l := &line{fd: fd}
		p.lines[fd] = l
		p.idle <- l
		if err := p.poller.add(fd); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (p *pace) close() {
	for fd := range p.lines {
		closeAll(fd)
	}
	if p.timer >= 0 {
		closeAll(p.timer)
	}
	p.poller.close()
}

// due returns when a request is due, from the start.
func (p *pace) due(nth int) time.Duration {
	return time.Duration(float64(nth) / p.order.Rate * float64(time.Second))
}

func (p *pace) run() (pacing, error) {
	p.start = time.Now()
	end := p.due(p.total) + p.order.Patience
	for p.answered < p.total {
		if time.Since(p.start) > end {
			return pacing{}, fmt.Errorf("%d of %d requests, %.0f a second, had no answer %v after the last was due",
				p.total-p.answered, p.total, p.order.Rate, p.order.Patience)
		}
		if err := p.send(); err != nil {
			return pacing{}, err
		}
		if err := p.wakeAt(p.next(end)); err != nil {
			return pacing{}, err
		}
		events, err := p.poller.wait()
		if err != nil {
			return pacing{}, err
		}
		for _, e := range events {
			if int(e.Fd) == p.timer {
				continue // it is set anew before the next wait, which silences it
			}
			if err := p.hear(p.lines[int(e.Fd)]); err != nil {
				return pacing{}, err
			}
		}
	}
	return pacing{
		Requests: p.took.total, Max: p.took.max, Late: p.late.quantile(0.99),
		P50: p.took.quantile(0.5), P99: p.took.quantile(0.99), P999: p.took.quantile(0.999),
	}, nil
}

// send sends what is due, as far as there are connections for it.
func (p *pace) send() error {
	for p.sent < p.total && len(p.idle) > 0 {
		now, due := time.Since(p.start), p.due(p.sent)
		if now < due {
			return nil
		}
		l := <-p.idle
		l.nth, l.have = p.sent, 0
		text := p.requests[p.sent%len(p.requests)]
		if n, err := unix.Write(l.fd, text); err != nil || n < len(text) {
			return fmt.Errorf("send request %d: %w", p.sent, cmp.Or(err, io.ErrShortWrite))
		}
		if p.sent >= p.unheard {
			p.late.record(int64(now - max(due, l.free)))
		}
		p.sent++
	}
	return nil
}

// next returns when something is to be done that no answer will wake for.
func (p *pace) next(end time.Duration) time.Duration {
	if p.sent < p.total && len(p.idle) > 0 {
		return p.due(p.sent)
	}
	return end
}

// wakeAt has the poller return at that time, from the start.
func (p *pace) wakeAt(at time.Duration) error {
	// A time of zero would mean never.
	left := max(at-time.Since(p.start), 1)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	if err := unix.TimerfdSettime(p.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}

// hear reads from a connection and records its answer once that is whole.
func (p *pace) hear(l *line) error {
	n, err := unix.Read(l.fd, l.text[l.have:])
	now := time.Since(p.start)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil || n == 0 {
		return fmt.Errorf("the answer of request %d, after %d bytes: %w", l.nth, l.have, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	l.have += n
	status, length, err := takeResponse(l.text[:l.have])
	switch {
	case err != nil:
		return fmt.Errorf("request %d: %w", l.nth, err)
	case length == 0 && l.have == len(l.text):
		return fmt.Errorf("the answer of request %d is longer than %d bytes", l.nth, len(l.text))
	case length == 0:
		return nil
	case length != l.have:
		return fmt.Errorf("%d bytes follow the answer of request %d", l.have-length, l.nth)
	case status != http.StatusOK:
		return fmt.Errorf("request %d was answered with %d, want %d", l.nth, status, http.StatusOK)
	}
	if l.nth >= p.unheard {
		p.took.record(int64(now - p.due(l.nth)))
	}
	p.answered++
	l.free = now
	p.idle <- l
	return nil
}
