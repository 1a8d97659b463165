package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// The tests in the files called redis_ hurt real servers while a crowd asks a guard before a redisstore, and see what
// the crowd is told.

// patient is the deadline of guards whose tests are about who decides, not about how quickly: on a busy machine calls
// take longer than the default, and would be degraded for that.
const patient = 30 * time.Second

// soaks reports whether the long tests are wanted.
func soaks() bool { return os.Getenv("HEADGATE_SOAK") != "" }

// soak skips a test of speed, which needs a quiet machine, unless HEADGATE_SOAK is set.
func soak(t testing.TB) {
	t.Helper()
	if !soaks() {
		t.Skip("it measures times: set HEADGATE_SOAK=1 on a quiet machine")
	}
}

// soaking is how long the longest of them takes: what HEADGATE_SOAK says, if that is a time such as 10m.
func soaking() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HEADGATE_SOAK")); err == nil {
		return d
	}
	return 30 * time.Minute
}

func openStore(t testing.TB, url string, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := redisstore.Open(ctx, url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newGuard(t testing.TB, store headgate.Limiter, o guard.Options) *guard.Guard {
	t.Helper()
	if o.OnEvent == nil {
		o.OnEvent = func(guard.Event) {}
	}
	g, err := guard.New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// mustTake takes, or peeks at a check that costs nothing.
func mustTake(t testing.TB, l headgate.Limiter, c headgate.Check) headgate.Decision {
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

// A crowd is callers who ask all the time, and an account of what they were told.
type crowd struct {
	t        testing.TB
	guard    *guard.Guard
	store    *redisstore.Store
	accounts []*account

	began    time.Time
	stopping atomic.Bool
	callers  sync.WaitGroup

	asked, errors atomic.Int64
	overloaded    atomic.Int64
	lastDegraded  atomic.Int64 // when, in ns since it began
	times         atomic.Pointer[histogram]
}

// newCrowd starts callers who ask for one account after the other, each with a pause of about the pace between. They
// end with the test, if not before.
func newCrowd(t testing.TB, g *guard.Guard, s *redisstore.Store, accounts []*account, callers int, pace time.Duration) *crowd {
	t.Helper()
	c := &crowd{t: t, guard: g, store: s, accounts: accounts, began: time.Now()}
	c.times.Store(new(histogram))
	look := accounts[0].checks[0]
	look.Cost = 0
	mustTake(t, s, look) // it knows the shards of clients when it has the secret
	for _, a := range accounts {
		a.shard = s.Shard(a.checks[0])
	}
	for range callers {
		c.callers.Go(func() {
			for !c.stopping.Load() {
				c.ask(accounts[rand.IntN(len(accounts))])
				time.Sleep(pace/2 + rand.N(pace))
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *crowd) stop() {
	c.stopping.Store(true)
	c.callers.Wait()
}

func (c *crowd) ask(a *account) {
	times := c.times.Load()
	began := time.Now()
	decisions, err := decide(c.guard, a.checks)
	times.add(time.Since(began))
	c.asked.Add(1)
	a.asked.Add(1)
	if errors.Is(err, headgate.ErrOverloaded) {
		c.overloaded.Add(1) // this process stood still, as on a busy machine it may
		return
	}
	if err != nil {
		if c.errors.Add(1) <= 5 {
			c.t.Errorf("%s: %v: want no error to reach a caller", a, err)
		}
		return
	}
	if !headgate.Allowed(decisions) && !degradedAny(decisions) {
		a.denied.Add(1)
	}
	for i, d := range decisions {
		if d.Degraded {
			a.degraded.Add(1)
			raise(&c.lastDegraded, int64(time.Since(c.began)))
		} else if headgate.Allowed(decisions) {
			a.taken[i].Add(a.checks[i].Cost)
		}
	}
}

func decide(l headgate.Limiter, checks []headgate.Check) ([]headgate.Decision, error) {
	if len(checks) > 1 {
		return l.TakeAll(context.Background(), checks, nil)
	}
	d, err := l.Take(context.Background(), checks[0])
	return []headgate.Decision{d}, err
}

func degradedAny(ds []headgate.Decision) bool {
	return slices.ContainsFunc(ds, func(d headgate.Decision) bool { return d.Degraded })
}

func raise(to *atomic.Int64, n int64) {
	for old := to.Load(); n > old && !to.CompareAndSwap(old, n); old = to.Load() {
	}
}

// phase begins a new count of how long calls take, of those that begin from now on, and returns it.
func (c *crowd) phase() *histogram {
	h := new(histogram)
	c.times.Store(h)
	return h
}

// degraded sums the degraded decisions of the accounts that pass, of all if that is nil.
func (c *crowd) degraded(pass func(*account) bool) int64 {
	var sum int64
	for _, a := range c.accounts {
		if pass == nil || pass(a) {
			sum += a.degraded.Load()
		}
	}
	return sum
}

func (c *crowd) taken() int64 {
	var sum int64
	for _, a := range c.accounts {
		for i := range a.taken {
			sum += a.taken[i].Load()
		}
	}
	return sum
}

// A mark is what the accounts had been given at a time, by check.
type mark struct {
	at    time.Time
	taken [][]int64
}

// mark returns how things are. What was decided and has not been told yet counts as of later.
func (c *crowd) mark() mark {
	m := mark{at: time.Now()} // before the rest is read, so that what is given meanwhile has no time too many
	for _, a := range c.accounts {
		taken := make([]int64, len(a.taken))
		for i := range taken {
			taken[i] = a.taken[i].Load()
		}
		m.taken = append(m.taken, taken)
	}
	return m
}

// wantAtMost sees that no account was given more than burst + rate·t and so many times its capacity besides, by
// decisions that are not degraded. It returns the largest excess over burst + rate·t.
func (c *crowd) wantAtMost(more int64) int64 {
	c.t.Helper()
	return c.wantSince(mark{at: c.began}, more)
}

// wantSince is wantAtMost for what was given since a mark.
func (c *crowd) wantSince(m mark, more int64) int64 {
	c.t.Helper()
	excess := int64(math.MinInt64)
	for n, a := range c.accounts {
		for i := range a.taken {
			got := a.taken[i].Load()
			if m.taken != nil {
				got -= m.taken[n][i]
			}
			t := time.Since(m.at) // read last, so that what is taken meanwhile has its time too
			limit := a.checks[i].Limit
			bound := limit.Capacity() + int64(t.Seconds()/limit.Period.Seconds()*float64(limit.Count))
			excess = max(excess, got-bound)
			if got > bound+more*limit.Capacity() {
				c.t.Errorf("%s: %d units of %s passed in %v, want at most %d and %d times %d", a.checks[i].Key, got, limit, t, bound, more, limit.Capacity())
			}
		}
	}
	return excess
}

// wantMost sees that the accounts that pass were given most of what they could have been given, and all where nothing
// refills. They must have one check each, and nothing of theirs may be degraded.
func (c *crowd) wantMost(pass func(*account) bool) {
	c.t.Helper()
	n := 0
	for _, a := range c.accounts {
		if !pass(a) {
			continue
		}
		n++
		t := time.Since(c.began)
		got, limit := a.taken[0].Load(), a.checks[0].Limit
		if !a.refills() && a.denied.Load() > 0 {
			if got != limit.Count {
				c.t.Errorf("%s: denied after %d units of %s, want all", a, got, limit)
			}
			continue
		}
		// On a busy machine callers may not ask often enough, or not for a while.
		most := float64(limit.Capacity()) + t.Seconds()/limit.Period.Seconds()*float64(limit.Count)
		if could := min(most, float64(a.asked.Load())/3); float64(got) < could/2 {
			c.t.Errorf("%s: %d units of %s passed in %v, want about %.0f", a, got, limit, t, could)
		}
	}
	if n == 0 {
		c.t.Error("no account is of the kind that is looked at")
	}
}

// wantCounted sees that the guard counted as many degraded decisions as the callers, who have stopped, and returns how
// many.
func (c *crowd) wantCounted() int64 {
	c.t.Helper()
	seen, stats := c.degraded(nil), c.guard.Stats()
	if counted := stats.Open + stats.Closed + stats.Local; counted != seen {
		c.t.Errorf("the guard counted %d degraded decisions, the callers %d", counted, seen)
	}
	return seen
}

// exhaust spends what does not refill. The crowd would too, but on a busy machine that takes it long.
func (c *crowd) exhaust() {
	c.t.Helper()
	for _, a := range c.accounts {
		for !a.refills() && a.denied.Load() == 0 {
			if mustTake(c.t, c.store, a.checks[0]).Allowed {
				a.taken[0].Add(a.checks[0].Cost)
			} else {
				a.denied.Add(1)
			}
		}
	}
}

// calm is how long nothing must be degraded until it is taken to be over: longer than the time between two probes.
const calm = time.Second

// awaitCalm returns how long after a time the last decision was degraded, when that is over.
func (c *crowd) awaitCalm(since time.Time) time.Duration {
	c.t.Helper()
	last := func() time.Time { return c.began.Add(time.Duration(c.lastDegraded.Load())) }
	await.NoError(c.t, "not so yet", func() error {
		if quiet := time.Since(last()); quiet < calm || time.Since(since) < calm {
			return fmt.Errorf("a decision was degraded %v ago", quiet)
		}
		return nil
	})
	return last().Sub(since)
}

// awaitServed returns how long after a time all accounts that pass and refill were given something again, by decisions
// that are not degraded.
func (c *crowd) awaitServed(since time.Time, pass func(*account) bool) time.Duration {
	c.t.Helper()
	before := make([]int64, len(c.accounts))
	for i, a := range c.accounts {
		before[i] = a.taken[0].Load()
	}
	await.NoError(c.t, "not so yet", func() error {
		for i, a := range c.accounts {
			if pass(a) && a.refills() && a.taken[0].Load() == before[i] {
				return fmt.Errorf("%s is given nothing", a)
			}
		}
		return nil
	})
	return time.Since(since)
}

// awaitRole returns how long after a time a server says that it has a role.
func awaitRole(t testing.TB, s *redistest.Server, role string, since time.Time) time.Duration {
	t.Helper()
	await.NoError(t, "not so yet", func() error {
		reply, err := s.Do("ROLE")
		if list, ok := reply.([]any); ok && fmt.Sprint(list[0]) == role {
			return nil
		}
		return fmt.Errorf("%s is no %s: %v, %w", s, role, reply, err)
	})
	return time.Since(since)
}

// decided returns how many decisions a server was asked for since its stats were reset.
func decided(s *redistest.Server) int64 {
	var n int64
	for name, calls := range s.CommandStats() {
		if strings.HasPrefix(name, "eval") {
			n += calls
		}
	}
	return n
}
