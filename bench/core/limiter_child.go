package core

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// RunLimiter is the main function of a child process with a limiter.
func RunLimiter(f harness.ChildFlags, list []limiters.Entry, in io.Reader, printed *json.Encoder) error {
	e, err := limiters.EntryNamed(list, f.Contender)
	if err != nil {
		return err
	}
	q, ok := limiters.Quotas[f.Quota]
	if !ok {
		return fmt.Errorf("no quota is named %q", f.Quota)
	}
	switch f.Mode {
	case harness.ChildMem:
		_, filled, err := newServer(e, q, newWorkload(f.Keys, f.Picks))
		if err != nil {
			return err
		}
		return printed.Encode(filled)
	case harness.ChildServe:
		s, filled, err := newServer(e, q, newWorkload(f.Keys, f.Picks))
		if err != nil {
			return err
		}
		if err := printed.Encode(filled); err != nil {
			return err
		}
		return s.serve(in, printed)
	case harness.ChildTable:
		points, err := growTable(e, q, f.Keys, f.At)
		if err != nil {
			return err
		}
		return printed.Encode(points)
	case harness.ChildGrowth:
		g, err := grow(e, q, f.Keys, f.Seconds)
		if err != nil {
			return err
		}
		return printed.Encode(g)
	default:
		return fmt.Errorf("no child is named %q", f.Mode)
	}
}

// A Request asks a serving child for one measurement.
type Request struct {
	Do         string // one of those below
	Order      string
	Goroutines int
	Ops        int
	Round      int
	Rate       float64 // of doOffer
	Length     time.Duration
}

// The values of Request.Do.
const (
	DoTime  = "time"
	doGC    = "gc"
	doTable = "table"
	DoOffer = "offer"
)

// A response answers a request.
type response struct {
	Time    timing
	GC      collection
	Table   harness.TableSize
	Offered harness.Pacing
	Error   string
}

// A server is the contender of a child process and its state.
type server struct {
	contender limiters.Limiter
	work      *workload
}

// newServer creates a contender and makes one decision on every key.
func newServer(e limiters.Entry, q limiters.Quota, work *workload) (*server, harness.Filling, error) {
	filled := harness.Filling{Keys: work.total}
	harness.FreeMemory()
	var err error
	if filled.Before, err = harness.ReadFootprint(); err != nil {
		return nil, filled, err
	}
	c, err := e.Make(q, work.total)
	if err != nil {
		return nil, filled, fmt.Errorf("make %s: %w", e.Name, err)
	}
	denied := 0
	visit := func(key string) {
		if !c.Allow(key) {
			denied++
		}
	}
	start := time.Now()
	harness.EachKey(work.total, e.KeepsKeys, visit)
	filled.Seconds = time.Since(start).Seconds()
	if denied > 0 {
		return nil, filled, fmt.Errorf("fill %s: the first request of %d keys was denied", e.Name, denied)
	}
	harness.FreeMemory()
	if filled.After, err = harness.ReadFootprint(); err != nil {
		return nil, filled, err
	}
	if t, ok := c.(limiters.Counted); ok {
		size := t.Table()
		filled.Table = &size
		if err := checkComplete(e, size, work.total); err != nil {
			return nil, filled, err
		}
	}
	return &server{contender: c, work: work}, filled, nil
}

// checkComplete reports that a table does not hold all keys.
func checkComplete(e limiters.Entry, size harness.TableSize, keys int) error {
	if size.Lost > 0 || size.Keys < int64(keys) {
		return fmt.Errorf("%s: of %d keys it knows %d and has lost %d", e.Name, keys, size.Keys, size.Lost)
	}
	return nil
}

// serve responds to requests until the input ends.
func (s *server) serve(in io.Reader, out *json.Encoder) error {
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var r Request
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read request: %w", err)
		}
		if err := out.Encode(s.answer(r)); err != nil {
			return fmt.Errorf("write response: %w", err)
		}
	}
}

func (s *server) answer(r Request) response {
	switch r.Do {
	case DoTime:
		return response{Time: s.work.measure(s.contender, r.Order, r.Goroutines, r.Ops, r.Round)}
	case doGC:
		c, err := measureCollection(s.contender)
		if err != nil {
			return response{Error: err.Error()}
		}
		return response{GC: c}
	case doTable:
		if t, ok := s.contender.(limiters.Counted); ok {
			return response{Table: t.Table()}
		}
		return response{Error: "it does not tell the size of its table"}
	case DoOffer:
		return s.work.offer(s.contender, r)
	default:
		return response{Error: fmt.Sprintf("nothing is named %q", r.Do)}
	}
}
