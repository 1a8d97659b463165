package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/stalls"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/gcpause"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control/follow"
)

// A phase is what goes on while requests are measured.
type phase int

const (
	warming  phase = iota
	idle           // nothing
	spinning       // another goroutine is as busy as one that swaps rules, but with nothing
	swapping
	phases
)

// A request is one that took long: from when to when, and for how much of it the kernel ran others on both cores.
type request struct {
	stalls.Span
	queued time.Duration
}

// slowFrom is from when on it is of interest what a request waited for.
const slowFrom = time.Millisecond

// A lap is what was measured during one swap, or for as long without one.
type lap struct {
	took figures
	slow []request // those that took longer than slowFrom
}

// A stage is a lap that began at some time, after another.
type stage struct {
	lap   *lap
	began time.Duration
	after *stage // nil for the first
}

// add notes a request in each lap that it has seen a part of: it may have waited for what went on in any of them.
func (s *stage) add(r request) {
	for ; s != nil; s = s.after {
		took := r.To - r.From
		s.lap.took = append(s.lap.took, took)
		if took > slowFrom {
			s.lap.slow = append(s.lap.slow, r)
		}
		if s.began <= r.From {
			return
		}
	}
}

// measured is what was measured.
type measured struct {
	laps   [phases][]lap
	stalls []stalls.Span // when the machine stood still
}

// A swapRun is what is to be measured.
type swapRun struct {
	rules, swaps int
	every        time.Duration // a request comes
	// alone has it come before all others on the machine, if it may: what is seen is ours then.
	alone bool
	// hold is for how long requests are kept waiting for each swap: 0 unless a test is about that being seen.
	hold time.Duration
}

// swapped measures how long requests take while rules are swapped, and for comparison for as long while they are not:
// what the machine and the kernel do by themselves must not be taken for the swap's.
func swapped(t testing.TB, run swapRun) (made measured) {
	t.Helper()
	source := &memory{}
	source.commit(manyRules(run.rules, 1000))
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var gate sync.RWMutex
	heavy := func() func() { return gcpause.Start(gcpause.ForRules) } // as the program has it
	n, err := follow.Open(t.Context(), follow.Config{Logger: slog.New(slog.DiscardHandler), Source: source, Poll: time.Hour, HeavyWork: heavy, Apply: func(set *match.Set) error {
		if run.hold > 0 {
			gate.Lock()
			defer gate.Unlock()
			time.Sleep(run.hold)
		}
		return e.SetRules(set)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Rules().Len(); got != run.rules {
		t.Fatalf("got %d rules, want %d", got, run.rules)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { n.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})

	if run.alone {
		end, err := stalls.Prefer()
		if err != nil {
			t.Logf("others have the machine, too: %v", err)
		}
		defer end()
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	start := time.Now()
	var now atomic.Pointer[stage]
	enter := func(during phase, swap int) {
		now.Store(&stage{lap: &made.laps[during][swap], began: time.Since(start), after: now.Load()})
	}
	cores := make([]int, runtime.NumCPU())
	for i := range cores {
		cores[i] = i
	}
	watch, err := stalls.Begin(start, cores)
	if err != nil {
		t.Fatal(err)
	}
	for p := range made.laps {
		made.laps[p] = make([]lap, run.swaps)
	}
	var v engine.Verdict
	var asked error
	var garbage atomic.Pointer[[1024]byte]
	group.Go(func() {
		asked = ask(&stop, func(i int) (*stage, error) {
			subject := rules.Attributes{ // servers make garbage of each request, too
				{Kind: headgate.AttrUser}: fmt.Sprint("user-", i%1000), {Kind: headgate.AttrMethod}: "GET",
				{Kind: headgate.AttrPath}: fmt.Sprint("/service/", i%run.rules, "/x"),
			}
			for range 4 {
				garbage.Store(&[1024]byte{})
			}
			gate.RLock()
			err := e.Decide(context.Background(), subject, &v)
			gate.RUnlock()
			if err == nil && len(v.Outcomes()) != 1 {
				err = fmt.Errorf("%d rules decided, want 1", len(v.Outcomes()))
			}
			return now.Load(), err
		}, start, run.every)
	})
	time.Sleep(100 * time.Millisecond)
	for i := range run.swaps {
		ops := manyRules(run.rules, 1001+i)
		runtime.GC() // so that what was made here is not collected during the swap
		time.Sleep(settled)
		began, collected := time.Now(), collections()
		enter(swapping, i)
		revision := source.commit(ops)
		n.Refresh()
		until(t, "a swap", func() bool { return n.Status().Revision == revision })
		if run.alone { // that what it left behind is collected is the swap's, too
			until(t, "the collector", func() bool { return collections() > collected })
		}
		time.Sleep(settled)
		lasted := time.Since(began)
		enter(spinning, i)
		for end := time.Now().Add(lasted); time.Now().Before(end); { // it looks at nothing but the clock
		}
		enter(idle, i)
		time.Sleep(lasted)
		enter(warming, i)
	}
	stop.Store(true)
	group.Wait()
	made.stalls, _ = watch.End()
	if errors.Is(asked, errors.ErrUnsupported) {
		t.Skip(asked)
	} else if asked != nil {
		t.Fatal(asked)
	}
	return made
}

// settled is how long it takes at most until nothing goes on any more that was begun before.
const settled = 100 * time.Millisecond

// collections returns how often memory was collected.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// ask answers requests as they come, on a thread that nobody else has: the kernel says how long it was kept waiting.
// They are timed from when they were sent.
func ask(stop *atomic.Bool, one func(i int) (*stage, error), start time.Time, every time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, err := stalls.OwnThread()
	if err != nil {
		return err
	}
	defer func() { _ = thread.Close() }()
	arrivals, err := stalls.Arrive(start, every)
	if err != nil {
		return err
	}
	defer arrivals.Close()
	before, err := thread.Times()
	for i := 0; err == nil && !stop.Load(); i++ {
		var sent time.Duration
		if sent, err = arrivals.Next(); err != nil {
			break
		}
		var during *stage
		if during, err = one(i); err != nil {
			break
		}
		answered := time.Since(start)
		var after stalls.Times
		after, err = thread.Times()
		during.add(request{stalls.Span{From: sent, To: answered}, min(answered-sent, after.Since(before).Queued)})
		before = after
	}
	return err
}

// slowest returns the longest, 0 if there are none.
// until waits for a condition, for half a minute at most.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s it is still not so: %s", patience, what)
		}
	}
}

// round leaves out the digits that mean nothing.
func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// figures are durations.
type figures []time.Duration

func (f figures) at(part float64) time.Duration {
	slices.Sort(f)
	return f[min(len(f)-1, int(part*float64(len(f))))]
}

func (f figures) slowest() time.Duration { return slices.Max(append(figures{0}, f...)) }

// ours returns how long a request took without what others had the cores for, or the machine stood still: whichever is
// more, as both may have been at once.
func (m *measured) ours(r request) time.Duration {
	return min(r.To-r.From-r.queued, r.Without(m.stalls))
}

// worst returns how long the slowest request of a lap took, and the slowest without what was not ours.
func (m *measured) worst(r *lap) (all, ours time.Duration) {
	all = r.took.slowest()
	if ours = min(all, slowFrom); len(r.slow) == 0 {
		return all, all
	}
	for _, slow := range r.slow {
		ours = max(ours, m.ours(slow))
	}
	return all, ours
}

// A tail is of the slowest requests, of all laps and of the one in the middle.
type tail struct{ all, ours, middleAll, middleOurs time.Duration }

func (m *measured) tail(of phase) tail {
	var all, ours figures
	for i := range m.laps[of] {
		a, o := m.worst(&m.laps[of][i])
		all, ours = append(all, a), append(ours, o)
	}
	return tail{all.slowest(), ours.slowest(), all.at(0.5), ours.at(0.5)}
}

func (t tail) String() string {
	return fmt.Sprintf("%s (%s in the middle of all swaps), %s (%s) with the time in which the kernel ran others",
		round(t.ours), round(t.middleOurs), round(t.all), round(t.middleAll))
}

// swapBar is how long a request may take because rules are swapped.
const swapBar = 5 * time.Millisecond

// holds reports whether no request was slower than a swap allows.
func (m *measured) holds() bool { return m.tail(swapping).ours <= swapBar }

func (m *measured) String() string {
	text := ""
	for p, what := range []string{idle: "nothing went on", spinning: "another goroutine was busy", swapping: "rules were swapped"} {
		if what == "" {
			continue
		}
		f := m.all(phase(p))
		text += fmt.Sprintf("; %d requests while %s: %s (99.9 of 100), %s (99.99), at most %s", len(f), what, round(f.at(0.999)), round(f.at(0.9999)), m.tail(phase(p)))
	}
	return text[2:]
}

// all returns how long the requests of a phase took.
func (m *measured) all(of phase) (list figures) {
	for i := range m.laps[of] {
		list = append(list, m.laps[of][i].took...)
	}
	return list
}
