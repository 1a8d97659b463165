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
type byPhase [phases]figures

// swapped measures how long decisions take while rules are swapped, and for comparison for as long while they are not: what the
// machine and the scheduler do by themselves must not be taken for the swap's.
func swapped(t testing.TB, count, swaps int) (took byPhase) {
	t.Helper()
	source := &memory{}
	source.commit(manyRules(count, 1000))
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	n := open(t, follow.Config{Source: source, Poll: time.Hour, Apply: e.SetRules})
	if got := e.Rules().Len(); got != count {
		t.Fatalf("got %d rules, want %d", got, count)
	}
	n.run(t)

	var now atomic.Int32 // the phase
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		var v engine.Verdict
		for i := 0; !stop.Load(); i++ {
			during := now.Load()
			began := time.Now()
			subject := rules.Attributes{ // servers make garbage of each request, too
				{Kind: headgate.AttrUser}: fmt.Sprint("user-", i%1000), {Kind: headgate.AttrMethod}: "GET",
				{Kind: headgate.AttrPath}: fmt.Sprint("/service/", i%count, "/x"),
			}
			err := e.Decide(context.Background(), subject, &v)
			last := time.Since(began)
			if err == nil && len(v.Outcomes()) != 1 {
				err = fmt.Errorf("%d rules decided, want 1", len(v.Outcomes()))
			}
			if err != nil {
				t.Error(err)
				return
			}
			took[during] = append(took[during], last)
			if i%64 == 0 {
				time.Sleep(100 * time.Microsecond) // requests come from a network, and leave room between them
			}
		}
	})
	time.Sleep(100 * time.Millisecond)
	for i := range swaps {
		ops := manyRules(count, 1001+i)
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
	return took
}

// slowest returns the longest.
func (f figures) slowest() time.Duration { return slices.Max(f) }

func (took *byPhase) String() string {
	text := ""
	for p, what := range []string{idle: "nothing went on", spinning: "another goroutine was busy", swapping: "rules were swapped"} {
		if what == "" {
			continue
		}
		f := took[p]
		text += fmt.Sprintf("; %d decisions while %s: %s (99.9 of 100), %s (99.99), %s at most", len(f), what, f.at(0.999), f.at(0.9999), f.slowest())
	}
	return text[2:]
}

// No request waits for rules that are swapped: the bar is 5 ms for 10,000 rules. On a test machine that does other things at
// the same time the scheduler alone may take longer, so that here nearly all have to.
func TestNoRequestWaitsForASwap(t *testing.T) {
	count := 1000
	if slow {
		count = 100
	}
	attempts.OneOf(t, 5, func() error {
		took := swapped(t, count, 2)
		t.Logf("%d rules: %s", count, &took)
		if got := took[swapping].at(0.99); got > 50*time.Millisecond {
			return fmt.Errorf("1 in 100 decisions took more than %s while rules were swapped", got)
		}
		return nil
	})
}

func TestSoakTenThousandRulesAreSwappedUnderLoad(t *testing.T) {
	soak(t)
	took := swapped(t, 10_000, 10)
	t.Logf("%d cores, 10,000 rules swapped 10 times: %s", runtime.NumCPU(), &took)
	// What the machine and the garbage collector do to a request anyway is not for the swap; the worst of so many varies.
	worst, anyway := took[swapping].slowest(), max(took[idle].slowest(), took[spinning].slowest())
	bars.Hold(t, "10,000 rules swapped on a node under load", "no request slower than 5 ms for it",
		fmt.Sprintf("%s; %s while a goroutine spun instead, %s while nothing went on", round(worst), round(took[spinning].slowest()), round(took[idle].slowest())),
		worst <= max(5*time.Millisecond, anyway+anyway/4))
}
