package follow_test

import (
	"context"
	"fmt"
	"os"
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
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// manyRules returns as many rules, each for a path of its own.
func manyRules(count, limit int) []control.Op {
	ops := make([]control.Op, count)
	for i := range ops {
		id := fmt.Sprintf("rule-%05d", i)
		ops[i] = rule(id, fmt.Sprintf(`{"id":"%s","when":{"path":"/service/%d/**","method":["GET","POST"]},"key":["user"],"limits":["%d/s","100000/h sliding-window"]}`, id, i, limit))
	}
	return ops
}

// swapped measures how long decisions take while rules are swapped, and while they are not.
func swapped(t testing.TB, count, swaps int) (quiet, busy figures) {
	t.Helper()
	db := openDB(t)
	commit(t, db, manyRules(count, 1000)...)
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	n := open(t, follow.Config{Source: follow.Database(db, namespace, nil), Poll: time.Hour, Apply: e.SetRules})
	if got := e.Rules().Len(); got != count {
		t.Fatalf("got %d rules, want %d", got, count)
	}
	n.run(t)

	var swapping, stop atomic.Bool
	ctx := context.Background()
	var v engine.Verdict
	decide := func(seed int) (time.Duration, error) {
		subject := rules.Attributes{
			{Kind: headgate.AttrUser}: fmt.Sprint("user-", seed%1000), {Kind: headgate.AttrMethod}: "GET",
			{Kind: headgate.AttrPath}: fmt.Sprint("/service/", seed%count, "/x"),
		}
		began := time.Now()
		err := e.Decide(ctx, subject, &v)
		took := time.Since(began)
		if err == nil && len(v.Outcomes()) != 1 {
			err = fmt.Errorf("%d rules decided, want 1", len(v.Outcomes()))
		}
		return took, err
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	group.Go(func() {
		for i := 0; !stop.Load(); i++ {
			during := swapping.Load()
			took, err := decide(i)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if during {
				busy = append(busy, took)
			} else {
				quiet = append(quiet, took)
			}
			mu.Unlock()
			if i%64 == 0 {
				time.Sleep(100 * time.Microsecond) // requests come from a network, and leave room between them
			}
		}
	})
	time.Sleep(200 * time.Millisecond) // for comparison
	for i := range swaps {
		// Somebody else's process commits it.
		revision := commit(t, db, manyRules(count, 1001+i)...)
		swapping.Store(true)
		until(t, "a swap", func() bool { return n.Status().Revision == revision })
		swapping.Store(false)
	}
	stop.Store(true)
	group.Wait()
	return quiet, busy
}

// slowest returns the longest.
func (f figures) slowest() time.Duration { return slices.Max(f) }

// No request waits for rules that are swapped: the bar is 5 ms for 10,000 rules. On a test machine that does other things at
// the same time the scheduler alone may take longer, so that here nearly all have to.
func TestNoRequestWaitsForASwap(t *testing.T) {
	count := 1000
	quiet, busy := swapped(t, count, 2)
	t.Logf("%d rules, %d decisions while they were swapped: %s (99.9 of 100), %s at most; %d others: %s, %s", count, len(busy), busy.at(0.999), busy.slowest(),
		len(quiet), quiet.at(0.999), quiet.slowest())
	if got := busy.at(0.99); got > 50*time.Millisecond {
		t.Errorf("1 in 100 decisions took more than %s while rules were swapped", got)
	}
}

func TestSoakTenThousandRulesAreSwappedUnderLoad(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK to run it")
	}
	quiet, busy := swapped(t, 10_000, 5)
	t.Logf("%d cores, 10000 rules, %d decisions while they were swapped: %s (99.9 of 100), %s (99.99), %s at most; %d others: %s, %s at most", runtime.NumCPU(),
		len(busy), busy.at(0.999), busy.at(0.9999), busy.slowest(), len(quiet), quiet.at(0.999), quiet.slowest())
}
