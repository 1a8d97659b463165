package site

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/bench/harness"
)

// A window is the time of one address.
type window struct {
	of       int // which
	begun    time.Duration
	total    int // requests to send
	unheard  int // of those, at the beginning, that are not recorded
	sent     int
	answered int
	timed    []timed
	late     harness.Histogram
	flooded  int           // requests of the flooding client
	stemmed  int           // of those, that were answered
	refused  int           // with a refusal
	cpu      time.Duration // that the server has used
}

// A line is a connection. It has at most one request in flight.
type line struct {
	fd   int
	of   int           // whose
	home chan *line    // where it waits
	free time.Duration // since when there has been none
	nth  int           // which request that is
	have int           // how much of its answer has come
	text [8 << 10]byte
}

// due returns when a request of a window is due.
func (p *pace) due(w *window, nth int) time.Duration { return w.begun + atRate(nth, p.order.Rate) }

// floodDue returns when the next request of the flooding client is due. It returns false if no more are due in this
// window.
func (p *pace) floodDue(w *window) (time.Duration, bool) {
	rate := p.floodRate(w.of)
	if rate == 0 {
		return 0, false
	}
	due := w.begun + atRate(w.flooded, rate)
	return due, due < p.due(w, w.total)
}

// floods reports whether the flooding client has requests to send or responses to wait for in this window.
func (p *pace) floods(w *window) bool {
	_, more := p.floodDue(w)
	return more || w.stemmed < w.flooded
}

func (p *pace) window(of int) error {
	cpu, err := p.cpu(of)
	if err != nil {
		return err
	}
	unheard := int(p.order.Rate * p.order.Warming.Seconds())
	heard := int(p.order.Rate * p.order.Length.Seconds())
	w := &window{
		of: of, begun: time.Since(p.start), unheard: unheard, total: unheard + heard,
		timed: make([]timed, 0, heard),
	}
	end := p.due(w, w.total) + p.order.Patience
	for w.answered < w.total || p.floods(w) {
		if time.Since(p.start) > end {
			return fmt.Errorf("%d of %d requests, %.0f a second, had no answer %v after the last was due",
				w.total-w.answered, w.total, p.order.Rate, p.order.Patience)
		}
		if err := p.send(w); err != nil {
			return err
		}
		if err := p.flood(w); err != nil {
			return err
		}
		if err := p.heed(w, end); err != nil {
			return err
		}
	}
	used, err := p.cpu(of)
	w.cpu = used - cpu
	p.done[of] = append(p.done[of], w)
	return err
}

// cpu returns the CPU time that the server of an address has used so far.
func (p *pace) cpu(of int) (time.Duration, error) {
	if of >= len(p.order.Groups) || p.order.Groups[of] == 0 {
		return 0, nil
	}
	return groupTime(p.order.Groups[of])
}

// heed waits for the next event, unless the load spins, and handles all events.
func (p *pace) heed(w *window, end time.Duration) error {
	look := p.poller.look
	if !p.order.Spins {
		if err := p.wakeAt(p.next(w, end)); err != nil {
			return err
		}
		look = p.poller.wait
	}
	events, err := look()
	if err != nil {
		return err
	}
	for _, e := range events {
		fd := int(e.Fd)
		if fd == p.timer {
			continue // it is set again before the next wait, which silences it
		}
		if l := p.lines[fd]; l != nil {
			err = p.hear(w, l)
		} else {
			err = p.others(fd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends the due requests for which there are connections.
func (p *pace) send(w *window) error {
	idle := p.idle[w.of]
	for w.sent < w.total && len(idle) > 0 {
		now, due := time.Since(p.start), p.due(w, w.sent)
		if now < due {
			return nil
		}
		l := <-idle
		l.nth, l.have = w.sent, 0
		if err := l.write(p.requests[w.sent%len(p.requests)]); err != nil {
			return fmt.Errorf("send request %d: %w", w.sent, err)
		}
		if w.sent >= w.unheard {
			w.late.Record(int64(now - max(due, l.free)))
		}
		w.sent++
	}
	return nil
}

// flood sends the due requests of the flooding client.
func (p *pace) flood(w *window) error {
	noisy := p.noisy[w.of]
	for len(noisy) > 0 {
		due, more := p.floodDue(w)
		if !more || time.Since(p.start) < due {
			return nil
		}
		l := <-noisy
		l.nth, l.have = w.flooded, 0
		if err := l.write(floodRequest); err != nil {
			return fmt.Errorf("send request %d of the flood: %w", w.flooded, err)
		}
		w.flooded++
	}
	return nil
}

// write sends a request. It does not block, because the connection has no other request in flight.
func (l *line) write(text []byte) error {
	n, err := unix.Write(l.fd, text)
	if err == nil && n < len(text) {
		return io.ErrShortWrite
	}
	return err
}

// next returns the time of the next event that is not a response.
func (p *pace) next(w *window, end time.Duration) time.Duration {
	at := end
	if w.sent < w.total && len(p.idle[w.of]) > 0 {
		at = p.due(w, w.sent)
	}
	if due, more := p.floodDue(w); more && len(p.noisy[w.of]) > 0 {
		at = min(at, due)
	}
	return at
}

// wakeAt lets the poller return at a time since the start.
func (p *pace) wakeAt(at time.Duration) error {
	// The kernel takes a time of zero as never.
	left := max(at-time.Since(p.start), 1)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	if err := unix.TimerfdSettime(p.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("timer: %w", err)
	}
	return nil
}
