package guard_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// callers is how many there are in an outage.
const callers = 64

// slack is how much longer than the deadline a call may take. On a quiet machine it is 5 ms, and in virtual time
// nothing.
const slack = 50 * time.Millisecond

// noise measures how late timers are, which is what a call that waits for its deadline cannot help.
type noise struct {
	late histogram
	stop atomic.Bool
	done sync.WaitGroup
}

func measureNoise(t testing.TB, each time.Duration) *noise {
	n := new(noise)
	for range 8 {
		n.done.Go(func() {
			for !n.stop.Load() {
				began := time.Now()
				<-time.After(each)
				n.late.add(time.Since(began) - each)
			}
		})
	}
	t.Cleanup(n.end)
	return n
}

// end ends the measurement.
func (n *noise) end() {
	n.stop.Store(true)
	n.done.Wait()
}

// awaitOpen returns when the circuit of the only shard opened.
func awaitOpen(t testing.TB, g *guard.Guard) time.Time {
	t.Helper()
	awaitCircuit(t, g, true)
	return g.Shards()[0].Since
}

func awaitCircuit(t testing.TB, g *guard.Guard, open bool) {
	t.Helper()
	await.NoError(t, "not so yet", func() error {
		if s := g.Shards()[0]; s.Open != open {
			return fmt.Errorf("the circuit is open: %v, want %v", s.Open, open)
		}
		return nil
	})
}

// An outage is what a fault did to callers.
type outage struct {
	deadline    time.Duration // of the guard
	first, open histogram     // how long calls took that began before and after the circuit opened
	opened      time.Duration // when that was, from the fault on
	noise       time.Duration // by how much timers were late at most
	recovery    time.Duration // from the end of the fault until decisions were exact

	goroutinesBefore, goroutinesSoon, goroutinesMost int
	heapBefore, heapAfter                            uint64
}

// endure runs a fault for a while under the load of a crowd.
func endure(t testing.TB, c *crowd, deadline time.Duration, fault func(), lasting time.Duration) *outage {
	t.Helper()
	o := &outage{deadline: deadline}
	n := measureNoise(t, deadline)
	o.heapBefore, o.goroutinesBefore = heap(), runtime.NumGoroutine()
	awaitCircuit(t, c.guard, false) // on a busy machine it may be open without any fault
	first := c.phase()
	began := time.Now()
	fault()
	o.opened = awaitOpen(t, c.guard).Sub(began)
	open := c.phase()
	o.goroutinesSoon = runtime.NumGoroutine()
	for time.Since(began) < lasting {
		time.Sleep(5 * time.Millisecond)
		n := runtime.NumGoroutine()
		if time.Since(began) < 250*time.Millisecond+2*deadline { // until those are given up that had begun before
			o.goroutinesSoon = n
		} else {
			o.goroutinesMost = max(o.goroutinesMost, n)
		}
	}
	c.phase()
	o.heapAfter = heap()
	n.end()
	o.noise = n.late.max()
	o.first.merge(first)
	o.open.merge(open)
	t.Logf("circuit opened after %v; until then: %v", o.opened, &o.first)
	t.Logf("then: %v", &o.open)
	t.Logf("timers were late by %v at most; goroutines %d, soon %d, then at most %d; heap %d KiB, then %d KiB",
		o.noise, o.goroutinesBefore, o.goroutinesSoon, o.goroutinesMost, o.heapBefore>>10, o.heapAfter>>10)
	return o
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// check checks what holds on a busy machine too.
func (o *outage) check(t *testing.T) {
	t.Helper()
	if o.open.count() < 2*callers {
		t.Errorf("%d calls after the circuit opened, want many", o.open.count())
	}
	// The client library keeps a goroutine for each call that was given up, and for each probe, until it gives up the
	// connection.
	if grown := max(o.goroutinesSoon, o.goroutinesMost) - o.goroutinesBefore; grown > 2*callers {
		t.Errorf("%d goroutines more than before, want at most %d", grown, 2*callers)
	}
	if grown := int64(o.heapAfter) - int64(o.heapBefore); grown > 4<<20 {
		t.Errorf("the heap has grown by %d KiB, want hardly at all", grown>>10)
	}
}

// checkTimes checks that callers hardly noticed.
func (o *outage) checkTimes(t *testing.T) {
	t.Helper()
	o.check(t)
	var all histogram
	all.merge(&o.first)
	all.merge(&o.open)
	if got, most := all.at(0.999), o.deadline+slack+o.noise; got > most {
		t.Errorf("p99.9 of a call is %v, want at most %v, of which %v are for timers that are late", got, most, o.noise)
	}
	if got, most := all.max(), o.deadline+slack+2*o.noise; got > most {
		t.Errorf("the longest call took %v, want at most %v", got, most)
	}
	// Nobody waits for the deadline any more. On a quiet machine it is microseconds.
	if got, most := o.open.at(0.99), o.deadline/2; got > most {
		t.Errorf("p99 of a call after the circuit opened is %v, want at most %v", got, most)
	}
	if grown := o.goroutinesSoon - o.goroutinesBefore; grown > callers+16 {
		t.Errorf("%d goroutines more than before, want hardly more than there were calls when it began, %d", grown, callers)
	}
	if grown := o.goroutinesMost - o.goroutinesSoon; grown > 16 {
		t.Errorf("%d goroutines more than when it began, want hardly any", grown)
	}
	if o.recovery > back {
		t.Errorf("decisions are exact %v after the end, want at most %v", o.recovery, back)
	}
}

// back is how soon after a fault has ended decisions must be exact again.
const back = 2 * time.Second

// outages are what can happen to the only server there is. Each returns its URL, and what begins and ends the outage.
var outages = map[string]func(t testing.TB) (url string, begin, end func()){
	"hang": func(t testing.TB) (string, func(), func()) {
		server := redistest.Standalone(t, redistest.Options{})
		return server.URL(), server.Pause, server.Resume
	},
	"swallow": func(t testing.TB) (string, func(), func()) {
		proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
		return "redis://" + proxy.Addr(), proxy.Blackhole, proxy.Heal
	},
	"cut": func(t testing.TB) (string, func(), func()) {
		proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
		return "redis://" + proxy.Addr(), proxy.Cut, proxy.Heal
	},
}

const shortOutage = 1500 * time.Millisecond

func TestHungServerIsSurvived(t *testing.T) { testOutage(t, "hang", shortOutage, (*outage).check) }

func TestNetworkWithFullPacketLossIsSurvived(t *testing.T) {
	testOutage(t, "swallow", shortOutage, (*outage).check)
}

func TestCutNetworkIsSurvived(t *testing.T) { testOutage(t, "cut", shortOutage, (*outage).check) }

// wellServed returns a crowd whose guard keeps its deadline as long as all is well. That is the default where the
// machine is up to it, and the next longer one that it is up to elsewhere.
func wellServed(t testing.TB, store *redisstore.Store) (*crowd, time.Duration) {
	t.Helper()
	for deadline := guard.DefaultDeadline; ; deadline *= 2 {
		g := newGuard(t, store, guard.Options{Deadline: deadline})
		c := newCrowd(t, g, store, newAccounts(60), callers, 10*time.Millisecond)
		time.Sleep(max(300*time.Millisecond, 8*deadline))
		degraded, asked := c.degraded(nil), c.asked.Load()
		if degraded*50 <= asked && asked > 2*callers || deadline > time.Second {
			return c, deadline
		}
		t.Logf("with a deadline of %v %d of %d decisions are degraded although all is well", deadline, degraded, asked)
		c.stop()
	}
}

// testOutage lets an outage happen, and end.
func testOutage(t *testing.T, name string, lasting time.Duration, check func(*outage, *testing.T)) {
	t.Helper()
	url, begin, end := outages[name](t)
	store := openStore(t, url, redisstore.Options{})
	c, deadline := wellServed(t, store)
	c.exhaust()
	degradedBefore := c.degraded(nil)
	o := endure(t, c, deadline, begin, max(lasting, 8*deadline))
	if c.degraded(nil) == degradedBefore {
		t.Error("nothing was degraded")
	}
	end()
	o.recovery = c.awaitServed(time.Now(), everybody)
	t.Logf("exact %v after the end", o.recovery)
	check(o, t)
	time.Sleep(200 * time.Millisecond)
	c.stop()
	excess := c.wantAtMost(0)
	t.Logf("%d asked, %d taken, %d degraded, at most %d beyond burst + rate·t", c.asked.Load(), c.taken(), c.wantCounted(), excess)
}
