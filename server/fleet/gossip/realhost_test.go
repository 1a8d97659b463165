package gossip

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

// A diary is what a host was told of.
type diary struct {
	mu     sync.Mutex
	events []Event
}

func (d *diary) note(e Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

func (d *diary) has(kind EventKind) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// A realHost gossips over the sockets of this machine.
type realHost struct {
	*Limiter
	diary *diary
}

func startReal(t *testing.T, name string, change func(*fleet.LedgerOptions, *Options)) *realHost {
	t.Helper()
	h := &realHost{diary: &diary{}}
	lo := fleet.LedgerOptions{Secret: []byte("a secret of the tests")}
	o := Options{
		Name: name, Cluster: "test", BindAddr: "127.0.0.1:0",
		Interval: 20 * time.Millisecond, Probe: 200 * time.Millisecond, OnEvent: h.diary.note,
	}
	if change != nil {
		change(&lo, &o)
	}
	g, err := New(lo, o)
	if err != nil {
		t.Fatal(err)
	}
	h.Limiter = g
	t.Cleanup(func() { _ = g.Close() })
	return h
}

func joining(others ...*realHost) func(*fleet.LedgerOptions, *Options) {
	return func(_ *fleet.LedgerOptions, o *Options) {
		for _, other := range others {
			o.Join = append(o.Join, other.Addr())
		}
	}
}

func (h *realHost) take(t *testing.T, key string, limit headgate.Limit, n int) (passed int) {
	t.Helper()
	for range n {
		d, err := h.Take(t.Context(), headgate.Check{Key: key, Limit: limit, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

func (h *realHost) remaining(t *testing.T, key string, limit headgate.Limit) int64 {
	t.Helper()
	d, err := h.Peek(t.Context(), headgate.Check{Key: key, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func allLive(want int, hosts ...*realHost) func() bool {
	return func() bool {
		for _, h := range hosts {
			if h.Live() != want {
				return false
			}
		}
		return true
	}
}

// kill ends a host without a farewell.
func (h *realHost) kill(t *testing.T) {
	t.Helper()
	h.sender.mu.Lock()
	h.sender.closed = true
	h.sender.mu.Unlock()
	m := h.currentMesh().(*memberMesh)
	m.joiner.close()
	h.closing.Do(func() { h.closeErr = m.list.Shutdown() })
	if h.closeErr != nil {
		t.Fatal(h.closeErr)
	}
	h.events.close()
}

// slow is a limit that gives nothing back while a test runs.
var slow = headgate.Per(1000, 300*24*time.Hour)
