package follow_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/follow"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/attempts"
	"github.com/headgate/headgate/internal/bars"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// memory is a source of rules in memory, each change of which changes all of them.
type memory struct {
	mu       sync.Mutex
	ops      []control.Op
	revision int64
}

func (m *memory) commit(ops []control.Op) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = ops
	m.revision++
	return m.revision
}

func (m *memory) Name() string      { return "memory" }
func (m *memory) Namespace() string { return namespace }

func (m *memory) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(func(int64, error) bool) { <-ctx.Done() }
}

func (m *memory) Beat(context.Context, control.Node) (int64, time.Duration, error) { return 0, 0, nil }

func (m *memory) Fetch(_ context.Context, since control.Mark, to follow.Sink) error {
	m.mu.Lock()
	ops, revision := m.ops, m.revision
	m.mu.Unlock()
	if since.Revision == revision {
		return nil
	}
	if err := to.Begin(control.Header{Namespace: namespace, Revision: revision, Since: since.Revision}); err != nil {
		return err
	}
	for _, op := range ops {
		if err := to.Item(&control.Item{Kind: op.Kind, ID: op.ID, Body: op.Body}); err != nil {
			return err
		}
	}
	return nil
}

// manyRules returns as many rules, each for a path of its own.
func manyRules(count, limit int) []control.Op {
	ops := make([]control.Op, count)
	for i := range ops {
		id := fmt.Sprintf("rule-%05d", i)
		ops[i] = rule(id, fmt.Sprintf(`{"id":"%s","when":{"path":"/service/%d/**","method":["GET","POST"]},"key":["user"],"limits":["%d/s","100000/h sliding-window"]}`, id, i, limit))
	}
	return ops
}

// A phase is what goes on while decisions are measured.
type phase int32

const (
	warming  phase = iota
	idle           // nothing
	spinning       // another goroutine is as busy as one that swaps rules, but with nothing
	swapping
	phases
)

// byPhase are how long decisions took.
type byPhase struct {
	took   [phases]figures
	slow   [phases][]span // those that took longer than slowFrom
	stalls []span         // when the machine stood still
	seen   bool           // somebody looked at that
}

// slowFrom is from when on it is of interest when a decision was, too.
const slowFrom = time.Millisecond

// A swapRun is what is to be measured.
type swapRun struct {
	rules, swaps int
	// hold is for how long decisions are kept waiting for each swap: 0 unless a test is about that being seen.
	hold time.Duration
}

// swapped measures how long decisions take while rules are swapped, and for comparison for as long while they are not: what the
// machine and the scheduler do by themselves must not be taken for the swap's.
func swapped(t testing.TB, run swapRun) (made byPhase) {
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
	n := open(t, follow.Config{Source: source, Poll: time.Hour, Apply: func(set *rules.Set) error {
		if run.hold > 0 {
			gate.Lock()
			defer gate.Unlock()
			time.Sleep(run.hold)
		}
		return e.SetRules(set)
	}})
	if got := e.Rules().Len(); got != run.rules {
		t.Fatalf("got %d rules, want %d", got, run.rules)
	}
	n.run(t)

	var now atomic.Int32 // the phase
	var stop atomic.Bool
	var group sync.WaitGroup
	start := time.Now()
	unwatch := watchStalls(t)
	group.Go(func() {
		var v engine.Verdict
		for i := 0; !stop.Load(); i++ {
			during := now.Load()
			began := time.Now()
			subject := rules.Attributes{ // servers make garbage of each request, too
				{Kind: headgate.AttrUser}: fmt.Sprint("user-", i%1000), {Kind: headgate.AttrMethod}: "GET",
				{Kind: headgate.AttrPath}: fmt.Sprint("/service/", i%run.rules, "/x"),
			}
			gate.RLock()
			err := e.Decide(context.Background(), subject, &v)
			gate.RUnlock()
			last := time.Since(began)
			if err == nil && len(v.Outcomes()) != 1 {
				err = fmt.Errorf("%d rules decided, want 1", len(v.Outcomes()))
			}
			if err != nil {
				t.Error(err)
				return
			}
			made.took[during] = append(made.took[during], last)
			if last > slowFrom {
				from := began.Sub(start)
				made.slow[during] = append(made.slow[during], span{from, from + last})
			}
			if i%64 == 0 {
				time.Sleep(100 * time.Microsecond) // requests come from a network, and leave room between them
			}
		}
	})
	time.Sleep(100 * time.Millisecond)
	for i := range run.swaps {
		ops := manyRules(run.rules, 1001+i)
		runtime.GC() // so that what was made here is not collected during the swap
		began := time.Now()
		now.Store(int32(swapping))
		revision := source.commit(ops)
		n.Poke()
		until(t, "a swap", func() bool { return n.Status().Revision == revision })
		lasted := time.Since(began)
		now.Store(int32(spinning))
		for end := time.Now().Add(lasted); time.Now().Before(end); { // it looks at nothing but the clock
		}
		now.Store(int32(idle))
		time.Sleep(lasted)
	}
	stop.Store(true)
	group.Wait()
	made.stalls, made.seen = unwatch()
	return made
}

// slowest returns the longest.
func (f figures) slowest() time.Duration { return slices.Max(f) }

// worst returns how long the slowest decision of a phase took, without the time in which the machine stood still.
func (b *byPhase) worst(during phase) time.Duration {
	if !b.seen || len(b.slow[during]) == 0 {
		return b.took[during].slowest()
	}
	worst := time.Duration(0)
	for _, s := range b.slow[during] {
		worst = max(worst, s.without(b.stalls))
	}
	return worst
}

// swapBar is how long a request may take because rules are swapped.
const swapBar = 5 * time.Millisecond

// holds tells whether no request was slower than it may be for a swap. What happens to requests without one anyway is not for it;
// the worst of so many varies.
func (b *byPhase) holds() bool {
	anyway := max(b.worst(idle), b.worst(spinning))
	return b.worst(swapping) <= max(swapBar, anyway+anyway/4)
}

func (b *byPhase) String() string {
	text := ""
	for p, what := range []string{idle: "nothing went on", spinning: "another goroutine was busy", swapping: "rules were swapped"} {
		if what == "" {
			continue
		}
		f := b.took[p]
		text += fmt.Sprintf("; %d decisions while %s: %s (99.9 of 100), %s (99.99), %s at most, %s of which were not the machine's",
			len(f), what, f.at(0.999), f.at(0.9999), f.slowest(), b.worst(phase(p)))
	}
	if !b.seen {
		text += "; the machine could not be watched"
	}
	return text[2:]
}

// No request waits for rules that are swapped: the bar is 5 ms for 10,000 rules. On a test machine that does other things at
// the same time the scheduler alone may take longer, so that here nearly all have to.
func TestNoRequestWaitsForASwap(t *testing.T) {
	run := swapRun{rules: 1000, swaps: 2}
	if slow {
		run.rules = 100
	}
	attempts.OneOf(t, 5, func() error {
		made := swapped(t, run)
		t.Logf("%d rules: %s", run.rules, &made)
		if got := made.took[swapping].at(0.99); got > 50*time.Millisecond {
			return fmt.Errorf("1 in 100 decisions took more than %s while rules were swapped", got)
		}
		return nil
	})
}

// A swap that keeps requests waiting is seen, and is not taken for what the machine does.
func TestASwapThatKeepsRequestsWaitingIsSeen(t *testing.T) {
	const hold = 100 * time.Millisecond
	attempts.OneOf(t, 5, func() error {
		made := swapped(t, swapRun{rules: 10, swaps: 2, hold: hold})
		if got := made.worst(swapping); got < hold/2 {
			return fmt.Errorf("requests waited for %s, and the slowest is said to have taken %s: %s", hold, got, &made)
		}
		return nil
	})
}

func TestASwapIsJudgedByWhatItAdds(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	six := span{10 * ms, 16 * ms}
	for _, tt := range []struct {
		name   string
		anyway time.Duration
		stalls []span
		seen   bool
		want   bool
	}{
		{"6 ms", ms, nil, true, false},
		{"6 ms, and nobody looked", ms, nil, false, false},
		{"6 ms, two of which the machine stood still", ms, []span{{11 * ms, 13 * ms}}, true, true},
		{"6 ms, and the machine stood still at another time", ms, []span{{20 * ms, 30 * ms}}, true, false},
		{"6 ms, as without a swap", 5 * ms, nil, true, true},
	} {
		b := byPhase{stalls: tt.stalls, seen: tt.seen}
		b.took = [phases]figures{idle: {tt.anyway}, spinning: {tt.anyway}, swapping: {ms, 6 * ms}}
		b.slow = [phases][]span{swapping: {six}}
		if got := b.holds(); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSoakTenThousandRulesAreSwappedUnderLoad(t *testing.T) {
	soak(t)
	made := swapped(t, swapRun{rules: 10_000, swaps: 10})
	t.Logf("%d cores, 10,000 rules swapped 10 times: %s", runtime.NumCPU(), &made)
	bars.Hold(t, "10,000 rules swapped on a node under load", "no request slower than 5 ms for it",
		fmt.Sprintf("%s, %s with what the machine stood still; %s while a goroutine spun instead, %s while nothing went on", round(made.worst(swapping)),
			round(made.took[swapping].slowest()), round(made.worst(spinning)), round(made.worst(idle))), made.holds())
}
