package stalls

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A shared machine sometimes stops a core for longer than the measured code takes. A real-time process that wakes up on
// that core every Tick detects it. It has priority over all measured code, so that code cannot delay it.
const (
	Tick  = 500 * time.Microsecond
	Least = 300 * time.Microsecond // a wake-up later than that is a stall
)

// Priority is the real-time priority of the watching processes. Measured code must stay below it.
const Priority = 2

// A Watch watches cores, with one process on each: in a busy process the watching thread would have to wait for other
// threads.
type Watch struct {
	start    time.Duration // by the machine's clock
	watchers []*watcher
	visible  bool // on all cores
}

type watcher struct {
	*child
	out *json.Decoder
}

// Begin watches cores until End is called; times are relative to start. The program must have called Main. Without the
// permission for real-time priority nothing is seen, because measured code would look like a stall.
func Begin(start time.Time, cores []int) (*Watch, error) {
	began, err := machineTimeOf(start)
	if errors.Is(err, errors.ErrUnsupported) {
		return &Watch{}, nil
	} else if err != nil {
		return nil, err
	}
	w := &Watch{start: began, visible: len(cores) > 0}
	for _, core := range cores {
		one, err := newWatcher(core)
		if err != nil {
			w.End()
			return nil, fmt.Errorf("watch core %d for stalls: %w", core, err)
		}
		w.watchers = append(w.watchers, one)
		var first bool
		if one.out.Decode(&first) != nil || !first {
			w.visible = false
		}
	}
	return w, nil
}

// machineTimeOf converts a time to the machine's clock. It reads two clocks one after the other, until that takes
// almost no time.
func machineTimeOf(at time.Time) (time.Duration, error) {
	const tries, atOnce = 1000, 2 * time.Microsecond
	best, found := time.Duration(math.MaxInt64), time.Duration(0)
	for range tries {
		before := time.Since(at)
		now, err := machineTime()
		if err != nil {
			return 0, err
		}
		if took := time.Since(at) - before; took < best {
			best, found = took, now-before-took/2
		}
		if best <= atOnce {
			break
		}
	}
	return found, nil
}

func newWatcher(core int) (*watcher, error) {
	c, out, err := startChild(watchedCore, core)
	if err != nil {
		return nil, err
	}
	return &watcher{c, json.NewDecoder(out)}, nil
}

// End ends the watch and returns the stalls of all cores, sorted by end. It returns false if they could not be seen.
func (w *Watch) End() ([]Span, bool) {
	var all []Span
	for _, one := range w.watchers {
		one.stop()
		var spans []Span
		if one.out.Decode(&spans) != nil {
			w.visible = false
		}
		one.wait()
		for _, s := range spans {
			all = append(all, Span{s.From - w.start, s.To - w.start})
		}
	}
	w.watchers = nil
	if !w.visible {
		return nil, false
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.To, b.To) })
	return all, true
}
