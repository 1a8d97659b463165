package control

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/stalls"
	"github.com/headgate/headgate/internal/bars"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

func TestMain(m *testing.M) {
	stalls.Main()
	os.Exit(m.Run())
}

const namespace = "default"

// soak skips a test that takes long, unless the long tests are asked for.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("takes long: HEADGATE_SOAK=1 runs it")
	}
}

func rule(id, body string) control.Op {
	return control.Op{Kind: control.KindRule, ID: id, Base: control.AnyRevision, Body: []byte(body)}
}

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

func (m *memory) Heartbeat(context.Context, control.Node) (int64, time.Duration, error) {
	return 0, 0, nil
}
func (m *memory) Leave(context.Context, control.Node) error { return nil }

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

// A swap that keeps requests waiting is seen, and is not taken for what the kernel or the machine does.
func TestSoakSwapThatKeepsRequestsWaitingIsSeen(t *testing.T) {
	soak(t)
	const hold = 100 * time.Millisecond
	measured := swapped(t, swapRun{rules: 10, swaps: 2, every: time.Millisecond, hold: hold})
	if got := measured.tail(swapping); got.ours < hold/2 || got.middleOurs < hold/2 || measured.holds() {
		t.Errorf("requests waited for %s, and the slowest is reported as %s: %s", hold, got, &measured)
	}
}

func TestASwapIsJudgedByWhatIsOurs(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name   string
		queued time.Duration
		stalls []stalls.Span
		want   bool
	}{
		{"6 ms", 0, nil, false},
		{"6 ms, two of which the kernel ran others", 2 * ms, nil, true},
		{"6 ms, two of which the machine stood still", 0, []stalls.Span{{From: 11 * ms, To: 13 * ms}}, true},
		{"6 ms, and the machine stood still at another time", 0, []stalls.Span{{From: 20 * ms, To: 30 * ms}}, false},
		{"6 ms, and of one the kernel ran others, perhaps on the machine that stood still", ms / 2, []stalls.Span{{From: 11 * ms, To: 11*ms + ms/2}}, false},
	} {
		m := measured{stalls: tt.stalls}
		m.laps[swapping] = []lap{
			{took: figures{ms / 2}},
			{took: figures{ms, 6 * ms}, slow: []request{{stalls.Span{From: 10 * ms, To: 16 * ms}, tt.queued}}},
		}
		if got := m.holds(); got != tt.want {
			t.Errorf("%s: got %v, want %v: %s", tt.name, got, tt.want, m.tail(swapping))
		}
	}
}

func TestSoakTenThousandRulesAreSwappedUnderLoad(t *testing.T) {
	soak(t)
	made := swapped(t, swapRun{rules: 10_000, swaps: 10, every: 100 * time.Microsecond, alone: true})
	t.Logf("%d cores, 10,000 rules swapped 10 times: %s", runtime.NumCPU(), &made)
	got := fmt.Sprintf("%s; at most %s while a goroutine spun instead, %s while nothing went on", made.tail(swapping), made.tail(spinning), made.tail(idle))
	bars.Hold(t, "10,000 rules swapped ten times on a node under load", "no request slower than 5 ms for it", got, made.holds())
}
