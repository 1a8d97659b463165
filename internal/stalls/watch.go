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

// A machine that others share stops a core now and then, for longer than what is measured takes. A process of real-time priority
// that is to wake on that core every Tick sees it: it comes before all that is measured there, so nothing of ours can hold it up.
const (
	Tick  = 500 * time.Microsecond
	Least = 300 * time.Microsecond // later than that, a core has stalled
)

// Priority is that of the processes that watch, of real time. What is measured stays below it.
const Priority = 2

// A Watch watches cores, with a process on each: in one that does anything else, the thread that is to wake would have to wait for
// other threads that are not first.
type Watch struct {
	start    time.Duration // by the machine's clock
	watchers []*watcher
	sees     bool // on all cores
}

type watcher struct {
	*child
	out *json.Decoder
}

// Begin watches cores until End is called; times are from the start. The program has called Main. Without the right to be first
// on a core nothing is seen: what is measured would look like a stall.
func Begin(start time.Time, cores []int) (*Watch, error) {
	began, err := onMachine(start)
	if errors.Is(err, errors.ErrUnsupported) {
		return &Watch{}, nil
	} else if err != nil {
		return nil, err
	}
	w := &Watch{start: began, sees: len(cores) > 0}
	for _, core := range cores {
		one, err := newWatcher(core)
		if err != nil {
			w.End()
			return nil, fmt.Errorf("watch core %d for stalls: %w", core, err)
		}
		w.watchers = append(w.watchers, one)
		var first bool
		if one.out.Decode(&first) != nil || !first {
			w.sees = false
		}
	}
	return w, nil
}

// onMachine returns a time by the machine's clock. Two clocks are read one after the other, which must be at once.
func onMachine(at time.Time) (time.Duration, error) {
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

// End ends the watch and returns when a core ran nothing, in the order of the ends. It is false if that could not be seen.
func (w *Watch) End() ([]Span, bool) {
	var all []Span
	for _, one := range w.watchers {
		one.tell()
		var told []Span
		if one.out.Decode(&told) != nil {
			w.sees = false
		}
		one.wait()
		for _, s := range told {
			all = append(all, Span{s.From - w.start, s.To - w.start})
		}
	}
	w.watchers = nil
	if !w.sees {
		return nil, false
	}
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.To, b.To) })
	return all, true
}
