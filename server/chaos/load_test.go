package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	workers = 4
	pause   = 10 * time.Millisecond // between two requests of a worker
	// settling is how long after a fault on a node connections to it may still fail. Responses are never excused.
	settling = 2 * time.Second
)

// A load is clients that send requests to all nodes, as a load balancer would: away from a node that does not respond.
type load struct {
	s      *system
	begin  time.Time
	strict bool // no error is excused: nodes are only avoided while they are broken

	mu         sync.Mutex
	line       []Second
	latencies  []time.Duration // of the current second
	admitted   int             // by the rule that fails closed
	overloaded []string        // responses that refuse because of overload
	violations []string
	failedAt   map[*program]time.Time // when each node was last under a fault
}

func newLoad(s *system) *load {
	return &load{s: s, begin: time.Now(), failedAt: make(map[*program]time.Time)}
}

// run sends requests until the context ends.
func (l *load) run(ctx context.Context) {
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for i := w; ctx.Err() == nil; i++ {
				l.request(i)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(time.Now())
}

// request sends one request, and tries the next node if the connection to one under a fault fails.
func (l *load) request(i int) {
	path := []string{"/open", "/closed"}[i/nodes%2]
	sent := time.Now()
	for attempt := range nodes {
		n := l.s.nodes[(i+attempt)%nodes]
		before := l.excused(n)
		if n.down() && attempt < nodes-1 {
			continue // the balancer has noticed
		}
		r, err := l.s.ask(n, path)
		if last := attempt == nodes-1; err == nil || last || !before && !l.excused(n) {
			l.record(n, path, r, err, time.Since(sent))
			return
		}
	}
}

// excused reports whether a node is under a fault, or was until a moment ago.
func (l *load) excused(n *program) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.faulty() {
		l.failedAt[n] = time.Now()
	}
	return !l.strict && time.Since(l.failedAt[n]) < settling
}

// record counts a response, and reports one that must not be.
func (l *load) record(n *program, path string, r reply, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.advance(now)
	second := &l.line[len(l.line)-1]
	l.latencies = append(l.latencies, took)
	switch {
	case err == nil && r.status == 200:
		second.Allowed++
		if path == "/closed" {
			l.admitted++
		}
	case err == nil && r.status == 429:
		second.Denied++
	case err == nil && r.isOverload():
		second.Overloaded++
		l.overloaded = append(l.overloaded, fmt.Sprintf("at %.1fs: %s %s", now.Sub(l.begin).Seconds(), n.name, path))
	case err == nil && r.status == 503 && path == "/closed":
		second.Refused++
	default:
		second.Violations++
		l.violations = append(l.violations, fmt.Sprintf("at %.1fs: %s %s: %+v, %v",
			now.Sub(l.begin).Seconds(), n.name, path, r, err))
	}
}

// advance adds seconds up to now. The caller holds the lock.
func (l *load) advance(now time.Time) {
	for want := int(now.Sub(l.begin)/time.Second) + 1; len(l.line) < want; {
		if len(l.line) > 0 && len(l.latencies) > 0 {
			slices.Sort(l.latencies)
			l.line[len(l.line)-1].P99 = l.latencies[len(l.latencies)*99/100]
			l.latencies = l.latencies[:0]
		}
		l.line = append(l.line, Second{})
	}
}
