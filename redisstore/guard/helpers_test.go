package guard

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

var errRefused = errors.New("connection refused")

// A fault is the fault of a shard of a fakeStore.
type fault struct {
	hangs bool          // until the context ends
	err   error         // returned at once, nothing is done
	slow  time.Duration // before it does what it should
}

// A fakeStore is a memstore that can fail, and counts its calls. The shard of a check is the text before the slash
// of its key.
type fakeStore struct {
	store *memstore.Store

	mu     sync.Mutex
	faults map[string]fault
	asked  []string // keys, a TakeAll's joined by a plus sign

	calls, looks, gives, inFlight, most atomic.Int64
}

func newFake(t testing.TB, now func() time.Time) *fakeStore {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &fakeStore{store: store, faults: make(map[string]fault)}
}

func shardOf(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// breaks sets the fault of a shard.
func (f *fakeStore) breaks(shard string, with fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[shard] = with
}

// log returns the keys of the calls since the last log.
func (f *fakeStore) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := strings.Join(f.asked, " ")
	f.asked = nil
	return all
}

func (f *fakeStore) begin(ctx context.Context, key, log string) error {
	f.calls.Add(1)
	now := f.inFlight.Add(1)
	for most := f.most.Load(); now > most && !f.most.CompareAndSwap(most, now); most = f.most.Load() {
	}
	defer f.inFlight.Add(-1)
	f.mu.Lock()
	what := f.faults[shardOf(key)]
	if len(f.asked) < 1000 {
		f.asked = append(f.asked, log)
	}
	f.mu.Unlock()
	if what.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if what.slow > 0 {
		select {
		case <-time.After(what.slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return what.err
}

func (f *fakeStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := c.Validate(); err != nil {
		return headgate.Decision{}, err // without a store call
	}
	if err := f.begin(ctx, c.Key, c.Key); err != nil {
		return headgate.Decision{}, err
	}
	return f.store.Take(ctx, c)
}

func (f *fakeStore) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	f.looks.Add(1)
	if err := f.begin(ctx, c.Key, c.Key); err != nil {
		return headgate.Decision{}, err
	}
	return f.store.Peek(ctx, c)
}

func (f *fakeStore) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	keys := make([]string, len(checks))
	for i, c := range checks {
		keys[i] = c.Key
	}
	if err := f.begin(ctx, checks[0].Key, strings.Join(keys, "+")); err != nil {
		return dst, err
	}
	return f.store.TakeAll(ctx, checks, dst)
}

func (f *fakeStore) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := f.begin(ctx, c.Key, "charge "+c.Key); err != nil {
		return headgate.Decision{}, err
	}
	return f.store.Charge(ctx, c)
}

func (f *fakeStore) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	f.gives.Add(1)
	if err := f.begin(ctx, c.Key, "give "+c.Key); err != nil {
		return err
	}
	return f.store.Give(ctx, c, r)
}

func (f *fakeStore) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (bool, error) {
	if err := f.begin(ctx, c.Key, "renew "+c.Key); err != nil {
		return false, err
	}
	return f.store.Renew(ctx, c, r)
}

func (f *fakeStore) Reset(ctx context.Context, c headgate.Check) error {
	if err := f.begin(ctx, c.Key, "reset "+c.Key); err != nil {
		return err
	}
	return f.store.Reset(ctx, c)
}

// A shardedFake is a fakeStore that names its shards.
type shardedFake struct{ *fakeStore }

func (f shardedFake) Shard(c headgate.Check) string { return shardOf(c.Key) }

// A probedFake is a fakeStore that can be probed.
type probedFake struct {
	*fakeStore
	probes *atomic.Int64
}

func (f probedFake) Probe(ctx context.Context, shard string) error {
	f.probes.Add(1)
	return f.begin(ctx, shard, "probe")
}

// quiet ignores events.
func quiet(Event) {}

func newGuard(t testing.TB, inner headgate.Limiter, o Options) *Guard {
	t.Helper()
	if o.OnEvent == nil {
		o.OnEvent = quiet
	}
	g, err := New(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil && !errors.Is(err, headgate.ErrClosed) {
			t.Error(err)
		}
	})
	return g
}

// check returns a check of one unit. The limit is as ParseLimit reads it.
func check(key, limit string) headgate.Check {
	return headgate.Check{Key: key, Limit: headgate.MustParseLimit(limit), Cost: 1}
}

func costing(c headgate.Check, cost int64) headgate.Check {
	c.Cost = cost
	return c
}

func under(c headgate.Check, p headgate.Policy) headgate.Check {
	c.OnFailure = p
	return c
}

// take takes, or peeks at a check that costs nothing.
func take(t testing.TB, l headgate.Limiter, c headgate.Check) headgate.Decision {
	t.Helper()
	decide := l.Take
	if c.Cost == 0 {
		decide = l.Peek
	}
	d, err := decide(context.Background(), c)
	if err != nil {
		t.Fatalf("take %d of %s for %s: %v", c.Cost, c.Limit, c.Key, err)
	}
	return d
}

func takeAll(t testing.TB, l headgate.Limiter, checks ...headgate.Check) []headgate.Decision {
	t.Helper()
	ds, err := l.TakeAll(context.Background(), checks, nil)
	if err != nil {
		t.Fatalf("take all: %v", err)
	}
	if len(ds) != len(checks) {
		t.Fatalf("take all: got %d decisions about %d checks", len(ds), len(checks))
	}
	return ds
}

// goDown makes a shard fail until its circuit opens, and returns once it is open.
func goDown(t testing.TB, g *Guard, f *fakeStore, shard string) {
	t.Helper()
	f.breaks(shard, fault{err: errRefused})
	for i := range tripInRow {
		take(t, g, check(shard+"/break"+string(rune('a'+i)), "1000/s"))
	}
	if !isOpen(g, shard) {
		t.Fatalf("the circuit of %q is closed after %d failures", shard, tripInRow)
	}
	f.log()
}

func isOpen(g *Guard, shard string) bool {
	for _, s := range g.Shards() {
		if s.Name == shard || s.Name == "" {
			return s.Open
		}
	}
	return false
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// took returns how long do takes.
func took(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func wantStats(t testing.TB, g *Guard, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d (%+v)", what, got, want, g.Stats())
	}
}
