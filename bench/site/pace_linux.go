package site

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/stalls"
)

// runPace sends requests to addresses at a constant rate and measures the response times. The times at which requests
// are due are fixed in advance. A response time begins at the due time, even if the request had to wait for a
// connection. So a server that stalls cannot hide it by receiving fewer requests.
func runPace(o PaceOrder) (paceResult, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	on, err := newPoller()
	if err != nil {
		return paceResult{}, err
	}
	defer on.close()
	return pacedOn(on, o, func(int) error { return nil })
}

// pacedOn is runPace with a poller that has further descriptors. It passes these to others when they are ready.
func pacedOn(on *poller, o PaceOrder, others func(fd int) error) (paceResult, error) {
	p, err := newPace(on, o, others)
	if err != nil {
		return paceResult{}, err
	}
	defer p.close()
	// A garbage collection would delay requests that are due. The load keeps only little memory, so it needs none.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	watch, err := stalls.Begin(p.start, o.Cores)
	if err != nil {
		return paceResult{}, err
	}
	err = p.run()
	found, seen := watch.End()
	if err != nil {
		return paceResult{}, err
	}
	return p.result(found, seen), nil
}

// A pace is a running load.
type pace struct {
	order    PaceOrder
	poller   *poller
	others   func(fd int) error
	timer    int
	requests [][]byte
	start    time.Time
	lines    map[int]*line
	idle     []chan *line // of each address; those that wait longest are used first, so that all are used alike
	noisy    []chan *line // the same for the flooding client
	done     [][]*window  // of each address
}

func newPace(on *poller, o PaceOrder, others func(fd int) error) (*pace, error) {
	p := &pace{
		order: o, poller: on, others: others, timer: -1, lines: map[int]*line{},
		done: make([][]*window, len(o.Addresses)), start: time.Now(),
	}
	texts := LoadRequests()
	if o.Clients > 0 {
		texts = texts[:o.Clients]
	}
	for _, text := range texts {
		p.requests = append(p.requests, []byte(text))
	}
	if err := p.open(); err != nil {
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
	for of, address := range p.order.Addresses {
		idle, err := p.connect(of, address, p.order.Connections)
		if err != nil {
			return err
		}
		connections := 0
		if p.floodRate(of) > 0 {
			connections = FloodConnections
		}
		noisy, err := p.connect(of, address, connections)
		if err != nil {
			return err
		}
		p.idle, p.noisy = append(p.idle, idle), append(p.noisy, noisy)
	}
	return nil
}

// connect opens connections to an address.
func (p *pace) connect(of int, address string, connections int) (chan *line, error) {
	home := make(chan *line, connections)
	for range connections {
		fd, err := connect(address)
		if err != nil {
			return nil, err
		}
		l := &line{fd: fd, of: of, home: home}
		p.lines[fd] = l
		home <- l
		if err := p.poller.add(fd); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	return home, nil
}

func (p *pace) close() {
	for fd := range p.lines {
		closeAll(fd)
	}
	if p.timer >= 0 {
		closeAll(p.timer)
	}
}

// run runs the windows. In each round every address has one window, in a new random order.
func (p *pace) run() error {
	for range p.order.Windows {
		for _, of := range rand.Perm(len(p.order.Addresses)) {
			if err := p.window(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// result returns the results of the windows.
func (p *pace) result(found []stalls.Span, watched bool) paceResult {
	r := paceResult{Windows: make([][]harness.Pacing, len(p.done)), Watched: watched, Stalls: len(found)}
	for _, s := range found {
		r.Stalled += s.To - s.From
	}
	for of, list := range p.done {
		for _, w := range list {
			var took harness.Histogram
			for _, t := range w.timed {
				took.Record(int64(t.done - t.due))
			}
			r.Windows[of] = append(r.Windows[of], harness.Pacing{
				Requests: took.Total, Max: took.Max, Late: w.late.Quantile(0.99), Flooded: int64(w.flooded), Refused: int64(
					w.refused),
				Sent: int64(w.sent + w.flooded), CPU: w.cpu,
				P50: took.Quantile(0.5), P99: took.Quantile(0.99), P999: took.Quantile(0.999),
				Calm: calm(w.timed, found),
			})
		}
	}
	return r
}

// atRate returns the time that a number of requests takes at a rate.
func atRate(n int, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// floodRate returns the rate of the flooding client of an address, or 0 if it has none.
func (p *pace) floodRate(of int) float64 {
	if p.order.Floods == nil {
		return 0
	}
	return p.order.Floods[of]
}

// hear reads from a connection, and records a response when it is complete.
func (p *pace) hear(w *window, l *line) error {
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
	case l.home == p.noisy[l.of]:
		return p.stem(w, l, status)
	case status != http.StatusOK:
		return fmt.Errorf("request %d was answered with %d, want %d", l.nth, status, http.StatusOK)
	}
	if l.nth >= w.unheard {
		w.timed = append(w.timed, timed{p.due(w, l.nth), now})
	}
	w.answered++
	l.free = now
	l.home <- l
	return nil
}

// stem records a response to the flooding client.
func (p *pace) stem(w *window, l *line, status int) error {
	switch status {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		w.refused++
	default:
		return fmt.Errorf("request %d of the flood was answered with %d, want %d or %d",
			l.nth, status, http.StatusOK, http.StatusTooManyRequests)
	}
	w.stemmed++
	l.home <- l
	return nil
}
