package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// childFlags say what a child process is to be.
type childFlags struct {
	mode      string
	contender string
	quota     string
	keys      int
	picks     int
	at        string
	seconds   float64
	target    string
}

// The modes of a child.
const (
	childMem    = "mem"    // fill, print what it takes, end
	childServe  = "serve"  // the same, and then do what is asked on standard input
	childCarry  = "carry"  // serve, with the ballast that the program has
	childTable  = "table"  // fill, printing how large the table is on the way
	childGrowth = "growth" // fill, printing how long each insertion took

	childResponder = "responder" // be the upstream of proxies, and send them requests at a constant rate if told to
	childFront     = "front"     // be a proxy, or a server that a proxy is measured by
	childClients   = "clients"   // register clients, print what they take and cost
	childRules     = "rules"     // match and decide, print how long it took
	childServer    = "server"    // be a server of the decision service, or one that it is measured by
)

// runChild is a child's main. What it prints is JSON.
func runChild(f childFlags, in io.Reader, out io.Writer) error {
	printed := json.NewEncoder(out)
	switch f.mode {
	case childResponder:
		return runResponder(in, printed)
	case childFront:
		return withBallast(func() error { return runFront(f.contender, f.target, in, printed) })
	case childClients, childRules:
		rounds, err := strconv.Atoi(f.at)
		if err != nil {
			return fmt.Errorf("-at %q: want how many rounds", f.at)
		}
		if f.mode == childRules {
			return measureRules(f.keys, f.picks, rounds, printed)
		}
		return measureClients(f.keys, f.picks, rounds, printed)
	case childCarry:
		f.mode = childServe
		return withBallast(func() error { return runLimiter(f, in, printed) })
	case childServer:
		return withBallast(func() error { return runServer(f.contender, f.target, in, printed) })
	default:
		return runLimiter(f, in, printed)
	}
}

// runLimiter is the main of a child with a limiter in it.
func runLimiter(f childFlags, in io.Reader, printed *json.Encoder) error {
	e, err := entryNamed(f.contender)
	if err != nil {
		return err
	}
	q, ok := quotas[f.quota]
	if !ok {
		return fmt.Errorf("no quota is named %q", f.quota)
	}
	switch f.mode {
	case childMem:
		_, filled, err := newServer(e, q, newWorkload(f.keys, f.picks))
		if err != nil {
			return err
		}
		return printed.Encode(filled)
	case childServe:
		s, filled, err := newServer(e, q, newWorkload(f.keys, f.picks))
		if err != nil {
			return err
		}
		if err := printed.Encode(filled); err != nil {
			return err
		}
		return s.serve(in, printed)
	case childTable:
		points, err := growTable(e, q, f.keys, f.at)
		if err != nil {
			return err
		}
		return printed.Encode(points)
	case childGrowth:
		g, err := grow(e, q, f.keys, f.seconds)
		if err != nil {
			return err
		}
		return printed.Encode(g)
	default:
		return fmt.Errorf("no child is named %q", f.mode)
	}
}

// A filling is what a child tells once its contender knows its keys.
type filling struct {
	Keys          int
	Seconds       float64
	Before, After footprint
	Table         *tableSize `json:",omitempty"`
}

// A request asks a serving child for one measurement.
type request struct {
	Do         string // one of those below
	Order      string
	Goroutines int
	Ops        int
	Round      int
	Rate       float64 // of doOffer
	Length     time.Duration
}

const (
	doTime  = "time"
	doGC    = "gc"
	doTable = "table"
	doOffer = "offer"
)

// A response answers a request.
type response struct {
	Time    timing
	GC      collection
	Table   tableSize
	Offered pacing
	Error   string
}

// A server is a child's contender and what it knows.
type server struct {
	contender contender
	work      *workload
}

// newServer makes a contender and lets it see every key once.
func newServer(e entry, q quota, work *workload) (*server, filling, error) {
	filled := filling{Keys: work.total}
	settle()
	var err error
	if filled.Before, err = readFootprint(); err != nil {
		return nil, filled, err
	}
	c, err := e.make(q, work.total)
	if err != nil {
		return nil, filled, fmt.Errorf("make %s: %w", e.name, err)
	}
	denied := 0
	visit := func(key string) {
		if !c.Allow(key) {
			denied++
		}
	}
	start := time.Now()
	eachKey(work.total, e.keepsKeys, visit)
	filled.Seconds = time.Since(start).Seconds()
	if denied > 0 {
		return nil, filled, fmt.Errorf("fill %s: the first request of %d keys was denied", e.name, denied)
	}
	settle()
	if filled.After, err = readFootprint(); err != nil {
		return nil, filled, err
	}
	if t, ok := c.(counted); ok {
		size := t.table()
		filled.Table = &size
		if err := complete(e, size, work.total); err != nil {
			return nil, filled, err
		}
	}
	return &server{contender: c, work: work}, filled, nil
}

// complete reports that a table does not hold all keys.
func complete(e entry, size tableSize, keys int) error {
	if size.Lost > 0 || size.Keys < int64(keys) {
		return fmt.Errorf("%s: of %d keys it knows %d and has lost %d", e.name, keys, size.Keys, size.Lost)
	}
	return nil
}

// serve answers requests until there are no more.
func (s *server) serve(in io.Reader, out *json.Encoder) error {
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var r request
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

func (s *server) answer(r request) response {
	switch r.Do {
	case doTime:
		return response{Time: s.work.measure(s.contender, r.Order, r.Goroutines, r.Ops, r.Round)}
	case doGC:
		c, err := collect(s.contender)
		if err != nil {
			return response{Error: err.Error()}
		}
		return response{GC: c}
	case doTable:
		if t, ok := s.contender.(counted); ok {
			return response{Table: t.table()}
		}
		return response{Error: "it does not tell the size of its table"}
	case doOffer:
		return s.work.offer(s.contender, r)
	default:
		return response{Error: fmt.Sprintf("nothing is named %q", r.Do)}
	}
}
