package gossip

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
)

// A gossipWorld runs hosts that gossip in virtual time, over a network that delays and loses. One goroutine does
// everything, so that the same seed gives the same course of events.
type gossipWorld struct {
	t      *testing.T
	now    time.Duration
	seq    int
	queue  happenings
	random *rand.Rand
	hosts  map[string]*worldHost

	delay  time.Duration
	loss   float64
	twice  float64 // how many packets come twice
	severs func(a, b string) bool
	sent   int64

	sharing bool // keys are under PartitionShare
}

type worldHost struct {
	*Limiter
	name  string
	mesh  *worldMesh
	clock *worldClock
}

// worldStart is the time of day when gossipWorld.now is 0.
var worldStart = time.Unix(1_700_000_000, 0)

// A worldClock is the clock of one host, whose timers and packets wait while it is stalled.
type worldClock struct {
	world   *gossipWorld
	ahead   time.Duration // of the right time of day
	stalled bool
	waiting []func()
}

func (c *worldClock) Now() time.Time                  { return worldStart.Add(c.world.now + c.ahead) }
func (c *worldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c *worldClock) NewTimer(time.Duration) clock.Timer {
	panic("no goroutine of a host waits for a timer")
}

func (c *worldClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.world.AfterFunc(d, func() { c.do(f) })
}

// do calls f, or has it wait until the host goes on.
func (c *worldClock) do(f func()) {
	if c.stalled {
		c.waiting = append(c.waiting, f)
		return
	}
	f()
}

// stall stops a host, as SIGSTOP does.
func (h *worldHost) stall() { h.clock.stalled = true }

// goOn lets a stalled host go on: all that waited happens at once.
func (h *worldHost) goOn() {
	h.clock.stalled = false
	waiting := h.clock.waiting
	h.clock.waiting = nil
	for _, f := range waiting {
		f()
	}
}

type worldMesh struct {
	world  *gossipWorld
	name   string
	to     Listener
	closed bool
	bytes  int64
}

type happening struct {
	at   time.Duration
	seq  int
	what func()
}

type happenings []*happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(*happening)) }
func (h *happenings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

func newGossipWorld(t *testing.T, seed uint64) *gossipWorld {
	return &gossipWorld{
		t: t, now: time.Hour, random: rand.New(rand.NewPCG(seed, 7)), hosts: map[string]*worldHost{},
		severs: func(string, string) bool { return false },
	}
}

// AfterFunc calls f after d.
func (w *gossipWorld) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &worldTimer{world: w, call: f}
	t.Reset(d)
	return t
}

type worldTimer struct {
	world   *gossipWorld
	call    func()
	pending *happening
}

func (t *worldTimer) C() <-chan time.Time { return nil }

func (t *worldTimer) Stop() bool {
	pending := t.pending != nil && t.pending.what != nil
	if pending {
		t.pending.what = nil
	}
	return pending
}

func (t *worldTimer) Reset(d time.Duration) bool {
	pending := t.Stop()
	t.world.seq++
	t.pending = &happening{at: t.world.now + max(d, 0), seq: t.world.seq, what: t.call}
	heap.Push(&t.world.queue, t.pending)
	return pending
}

// run lets time pass.
func (w *gossipWorld) run(d time.Duration) {
	until := w.now + d
	for len(w.queue) > 0 && w.queue[0].at <= until {
		h := heap.Pop(&w.queue).(*happening)
		w.now = h.at
		if what := h.what; what != nil {
			h.what = nil
			what()
		}
	}
	w.now = until
}

// every calls f now and again until it returns false.
func (w *gossipWorld) every(d time.Duration, f func() bool) {
	var again func()
	again = func() {
		if f() {
			w.AfterFunc(d, again)
		}
	}
	w.AfterFunc(0, again)
}

// host starts a host and lets it and the others know each other.
func (w *gossipWorld) host(name string, change func(*fleet.LedgerOptions, *Options)) *worldHost {
	w.t.Helper()
	return w.hostVia(name, w.sorted(), change)
}

// hostVia starts a host that all others hear of, and that exchanges states with some of them.
func (w *gossipWorld) hostVia(name string, via []*worldHost, change func(*fleet.LedgerOptions, *Options)) *worldHost {
	w.t.Helper()
	h := &worldHost{name: name, clock: &worldClock{world: w}}
	lo := fleet.LedgerOptions{Secret: []byte("a secret of the world"), Clock: h.clock}
	o := Options{
		Name:    name,
		Random:  rand.NewPCG(w.random.Uint64(), 1),
		OnEvent: func(Event) {},
		Mesh: func(to Listener) (Mesh, error) {
			h.mesh = &worldMesh{world: w, name: name, to: to}
			return h.mesh, nil
		},
	}
	if change != nil {
		change(&lo, &o)
	}
	g, err := New(lo, o)
	if err != nil {
		w.t.Fatal(err)
	}
	h.Limiter = g
	for _, other := range w.sorted() {
		other.mesh.to.Joined(name)
		h.mesh.to.Joined(other.name)
		if slices.Contains(via, other) {
			h.mesh.to.Merge(other.mesh.to.State())
			other.mesh.to.Merge(h.mesh.to.State())
		}
	}
	w.hosts[name] = h
	w.t.Cleanup(func() { _ = g.Close() })
	return h
}

// fleet starts so many hosts.
func (w *gossipWorld) fleet(n int, change func(*fleet.LedgerOptions, *Options)) []*worldHost {
	w.t.Helper()
	hosts := make([]*worldHost, n)
	for i := range hosts {
		hosts[i] = w.host(fmt.Sprintf("host-%03d", i), change)
	}
	return hosts
}

func (w *gossipWorld) sorted() []*worldHost {
	hosts := make([]*worldHost, 0, len(w.hosts))
	for _, h := range w.hosts {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b *worldHost) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return hosts
}

// Send implements Mesh.
func (m *worldMesh) Send(to string, packet []byte) error {
	w := m.world
	w.sent++
	m.bytes += int64(len(packet) + packetOverhead)
	times := 1
	if w.random.Float64() < w.twice {
		times = 2
	}
	for range times {
		if w.random.Float64() < w.loss || w.severs(m.name, to) {
			continue
		}
		p := slices.Clone(packet)
		// Some overtake others.
		w.AfterFunc(w.delay+time.Duration(w.random.Int64N(int64(w.delay/5)+1)), func() {
			if h := w.hosts[to]; h != nil && !h.mesh.closed {
				h.clock.do(func() { h.mesh.to.Receive(p) })
			}
		})
	}
	return nil
}

// Close implements Mesh.
func (m *worldMesh) Close() error {
	m.closed = true
	return nil
}

// take asks for n units one by one and returns how many were let pass.
func (h *worldHost) take(t *testing.T, key string, limit headgate.Limit, n int) (passed int64) {
	t.Helper()
	for range n {
		d, err := h.Take(t.Context(), h.check(key, limit, 1))
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

// remaining is what a host thinks is left of a key.
func (h *worldHost) remaining(t *testing.T, key string, limit headgate.Limit) int64 {
	t.Helper()
	d, err := h.Peek(t.Context(), h.check(key, limit, 0))
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

func (h *worldHost) check(key string, limit headgate.Limit, cost int64) headgate.Check {
	c := headgate.Check{Key: key, Limit: limit, Cost: cost}
	if h.mesh.world.sharing {
		c.Partition = headgate.PartitionShare
	}
	return c
}
