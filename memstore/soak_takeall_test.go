package memstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
)

// Whatever the interleaving and the clock, TakeAll takes from all of its keys or from none, and no key passes burst +
// rate·t: while keys are added, moved, swept and evicted around it, and are taken from, charged, given back and reset
// one by one. With HEADGATE_SOAK=1 it is 3·10⁸ decisions, else 10⁶.
func TestSoakTakeAllTakesAllOrNone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		full   bool
		rounds int // of three to four decisions, when soaking
	}{
		{"ample memory", false, 80_000_000},
		{"full memory", true, 20_000_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rounds := 150_000 / racing.Slower
			if soaking() {
				rounds = tt.rounds
			}
			newTakeAllSoak(t, tt.full).run(rounds)
		})
	}
}

// A takeAllSoak is a store under calls of TakeAll for many clients. A client has a twin of windows, which are taken
// from together and never else, and do not end; a bucket of its own, one that is reset at times, and one that it
// shares.
type takeAllSoak struct {
	*Store
	t       *testing.T
	clock   *shuffledClock
	full    bool // memory is: keys are evicted
	clients []soakClient
	shared  []soakKey

	done, flood, allowed, denied, refused, torn, over atomic.Int64
}

type soakClient struct {
	twin  [2]soakKey
	own   soakKey
	reset soakKey
}

// A soakKey is a key, and what was taken from it.
type soakKey struct {
	name   string
	limit  headgate.Limit
	taken  atomic.Int64 // less what was given back
	resets atomic.Int64
}

const (
	soakGoroutines = 1_000
	soakShared     = 16
	soakHot        = 4      // clients that half of the goroutines ask for
	soakHeat       = 20_000 // rounds after which it is others
)

func newTakeAllSoak(t *testing.T, full bool) *takeAllSoak {
	clock := newShuffledClock()
	s := &takeAllSoak{
		Store: newStore(t, Options{Now: clock.Now}), t: t, clock: clock, full: full,
		clients: make([]soakClient, 20_000/racing.Slower), shared: make([]soakKey, soakShared),
	}
	records := len(s.clients) / 2
	if full { // two thirds of it are for records, and the twins take half of the rest
		s.budget.SetLimit(288 << 10)
		s.clients, records = s.clients[:2_000], 80
	}
	name := func(k *soakKey, sort string, i int, limit string) {
		k.name, k.limit = sort+strconv.Itoa(i), headgate.MustParseLimit(limit)
	}
	for i := range s.clients {
		c := &s.clients[i]
		name(&c.twin[0], "first", i, "90000/d fixed-window")
		name(&c.twin[1], "second", i, "80000/d fixed-window")
		if i%2 == 0 && i/2 < records {
			c.twin[1].limit.Count = 300_000 // too large for an entry
		}
		if i%8 == 0 {
			c.twin[0].limit.Count = 500 // it will be denied
		}
		name(&c.own, "own", i, []string{"100/s burst 50", "100/s gcra burst 50", "100/s leaky-bucket"}[i%3])
		name(&c.reset, "reset", i, "200/s burst 20")
		s.takeTwin(c, 1) // while there is room
	}
	for i := range s.shared {
		name(&s.shared[i], "shared", i, "30000/s burst 50")
	}
	return s
}

func (k *soakKey) check(cost int64) headgate.Check {
	return headgate.Check{Key: k.name, Limit: k.limit, Cost: cost}
}

// takeTwin takes from both windows of a client, as some TakeAll does that is sure to pass.
func (s *takeAllSoak) takeTwin(c *soakClient, cost int64) {
	s.t.Helper()
	takeAll(s.t, s.Store, []headgate.Check{c.twin[0].check(cost), c.twin[1].check(cost)})
	c.twin[0].taken.Add(cost)
	c.twin[1].taken.Add(cost)
}

func (s *takeAllSoak) run(rounds int) {
	t, start := s.t, time.Now()
	var all sync.WaitGroup
	for g := range soakGoroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 5))
			b := &basket{s: s, r: r}
			for n := s.done.Add(1); n <= int64(rounds); n = s.done.Add(1) {
				b.takeAll()
				b.other()
				if n%10_000_000 == 0 {
					t.Logf("%d rounds in %s", n, time.Since(start).Round(time.Second))
				}
			}
		})
	}
	all.Wait()
	for i := range s.clients {
		c := &s.clients[i]
		for j := range c.twin {
			k := &c.twin[j]
			d, err := s.Peek(context.Background(), k.check(0))
			if got := d.Limit - d.Remaining; err != nil || got != k.taken.Load() {
				t.Errorf("%s: %d consumed (%v), want the %d that were admitted", k.name, got, err, k.taken.Load())
			}
		}
		s.bounds(c)
	}
	stats := s.Stats()
	t.Logf("%d allowed, %d denied, %d refused for want of room, %d torn, %d above burst + rate·t, in %s; %+v",
		s.allowed.Load(), s.denied.Load(), s.refused.Load(), s.torn.Load(), s.over.Load(), time.Since(start).Round(time.Second), stats)
	if s.allowed.Load() == 0 || s.denied.Load() == 0 || s.full != (stats.Evictions > 0) {
		t.Errorf("%d allowed, %d denied, %d evictions: the test does not put the pressure on that it is for",
			s.allowed.Load(), s.denied.Load(), stats.Evictions)
	}
	if s.torn.Load() != 0 {
		t.Errorf("%d looks found a twin unlike the other, want none", s.torn.Load())
	}
	if got := s.heldEntries(); got != 0 {
		t.Errorf("%d entries are still held", got)
	}
}

// bounds compares what a client was admitted with what the clock has allowed since. It reads the clock last, so that it
// never blames what was admitted meanwhile.
func (s *takeAllSoak) bounds(c *soakClient) {
	if s.full {
		return // who is evicted starts again; twins, which have more left to remember than others, are not
	}
	for _, k := range []*soakKey{&c.own, &c.reset, &s.shared[rand.IntN(len(s.shared))]} {
		got := k.taken.Load()
		elapsed, starts := s.clock.latest.Load(), 1+k.resets.Load()
		most := k.limit.Capacity()*starts + elapsed*k.limit.Count/k.limit.Period.Microseconds()
		if got > most && s.over.Add(1) < 10 {
			s.t.Errorf("%s: admitted %d in %d µs and %d resets, want at most %d", k.name, got, elapsed, starts-1, most)
		}
	}
}

// A basket is what a goroutine takes together.
type basket struct {
	s      *takeAllSoak
	r      *rand.Rand
	client *soakClient
	keys   []*soakKey
	checks []headgate.Check
	dst    []headgate.Decision
}

func (b *basket) add(k *soakKey, cost int64) {
	b.keys, b.checks = append(b.keys, k), append(b.checks, k.check(cost))
}

// takeAll takes from the twin of a client and from other keys, in any order.
func (b *basket) takeAll() {
	s, r := b.s, b.r
	at := r.IntN(len(s.clients))
	if r.IntN(2) == 0 {
		at = int(s.done.Load()/soakHeat) + r.IntN(soakHot)
	}
	b.client = &s.clients[at%len(s.clients)]
	b.keys, b.checks = b.keys[:0], b.checks[:0]
	cost := 1 + r.Int64N(3)
	b.add(&b.client.twin[0], cost)
	b.add(&b.client.twin[1], cost)
	if r.IntN(4) == 0 {
		b.add(&b.client.own, cost)
	}
	if r.IntN(4) == 0 {
		b.add(&b.client.reset, cost)
	}
	if r.IntN(2) == 0 {
		b.add(&s.shared[r.IntN(len(s.shared))], cost)
	}
	if r.IntN(2) == 0 { // one that was never seen
		flood := soakKey{name: "flood" + strconv.FormatInt(s.flood.Add(1), 10), limit: headgate.PerSecond(1)}
		if s.full {
			flood.limit = headgate.PerHour(1)
		}
		b.add(&flood, 1)
	}
	r.Shuffle(len(b.keys), func(i, j int) {
		b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
		b.checks[i], b.checks[j] = b.checks[j], b.checks[i]
	})
	ds, err := s.TakeAll(context.Background(), b.checks, b.dst[:0])
	b.dst = ds
	switch {
	case errors.Is(err, headgate.ErrFull) && s.full:
		s.refused.Add(1)
	case err != nil:
		s.t.Error(err)
	case headgate.Allowed(ds):
		s.allowed.Add(1)
		for i, k := range b.keys {
			k.taken.Add(b.checks[i].Cost)
		}
	default:
		s.denied.Add(1)
	}
}

// other does now and then something else to the keys of the latest basket.
func (b *basket) other() {
	s, r, c, ctx := b.s, b.r, b.client, context.Background()
	var err error
	switch r.IntN(32) {
	case 0, 1: // looks at the twin
		var ds []headgate.Decision
		ds, err = s.TakeAll(ctx, []headgate.Check{c.twin[0].check(headgate.MaxCount), c.twin[1].check(headgate.MaxCount)}, b.dst[:0])
		if err == nil && ds[0].Limit-ds[0].Remaining != ds[1].Limit-ds[1].Remaining {
			s.torn.Add(1)
		}
	case 2:
		c.reset.resets.Add(1)
		err = s.Reset(ctx, c.reset.check(0))
	case 3:
		_, err = s.Charge(ctx, c.own.check(1))
	case 4, 5: // takes from one of them alone
		k := []*soakKey{&c.own, &c.reset, &s.shared[0]}[r.IntN(3)]
		var d headgate.Decision
		if d, err = s.Take(ctx, k.check(1)); err == nil && d.Allowed {
			k.taken.Add(1)
		}
	case 6, 7: // gives back some of what was taken
		for i, d := range b.dst {
			if k := b.keys[i]; err == nil && d.Receipt.Units > 0 && (k == &c.own || k == &c.reset) {
				k.taken.Add(-1)
				err = s.Give(ctx, k.check(1), d.Receipt)
			}
		}
	case 8:
		s.bounds(c)
	case 9:
		if r.IntN(256) == 0 {
			s.sweepAll()
		}
	}
	if err != nil && (!s.full || !errors.Is(err, headgate.ErrFull)) {
		s.t.Error(err)
	}
}
