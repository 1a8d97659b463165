package enginestores

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules"
	nodes "github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/lease"
)

// A fleetClock is the clock of a test whose timers run by the system's.
type fleetClock struct {
	*limittest.Clock
}

func (c fleetClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (fleetClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return clock.System.AfterFunc(d, f)
}

func (fleetClock) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }

// onEveryMode runs a test with the rules of each mode: in memory, in Redis, with leases, and with counters that nodes
// exchange.
func onEveryMode(t *testing.T, test func(t *testing.T, b *bench, mode rules.Consistency)) {
	t.Helper()
	clocks := func(t *testing.T) (*bench, *memstore.Store) {
		b := &bench{Clock: limittest.NewClock(), t: t}
		return b, newStore(t, memstore.Options{Now: b.Now})
	}
	t.Run("memstore", func(t *testing.T) {
		b, local := clocks(t)
		b.Engine = newEngine(t, engine.Config{Store: local})
		test(t, b, rules.Local)
	})
	server := redistest.Standalone(t, redistest.Options{})
	inRedis := func(t *testing.T, b *bench) *redisstore.Store {
		store, err := redisstore.Open(context.Background(), server.URL(), redisstore.Options{
			Now: b.Now, Prefix: strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]) + ":", Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, store)
		return store
	}
	t.Run("redis", func(t *testing.T) {
		b, local := clocks(t)
		b.Engine = newEngine(t, engine.Config{Store: inRedis(t, b), Local: local, Shared: true})
		test(t, b, rules.Exact)
	})
	t.Run("lease", func(t *testing.T) {
		b, local := clocks(t)
		store := inRedis(t, b)
		lease, err := lease.New(store, lease.Options{Clock: fleetClock{b.Clock}, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := lease.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		modes := map[rules.Consistency]headgate.Limiter{rules.Lease: lease}
		b.Engine = newEngine(t, engine.Config{Store: store, Local: local, Shared: true, Modes: modes})
		test(t, b, rules.Lease)
	})
	t.Run("ledger", func(t *testing.T) {
		b, local := clocks(t)
		ledger, err := async.NewLocal(nodes.LedgerOptions{Clock: fleetClock{b.Clock}})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, ledger)
		modes := map[rules.Consistency]headgate.Limiter{rules.Gossip: ledger}
		b.Engine = newEngine(t, engine.Config{Store: local, Local: local, Modes: modes})
		test(t, b, rules.Gossip)
	})
}

// A changing changes the limit of a client.
type changing struct {
	name string
	// begin puts the first limit in force. It returns a function that puts the second one in force, and the limit's name.
	begin func(b *bench, who string, mode rules.Consistency, from, to string) (change func(), name string)
}

func (b *bench) put(list ...rules.Rule) {
	b.t.Helper()
	if err := b.SetRules(compile(b.t, list)); err != nil {
		b.t.Fatal(err)
	}
}

func changings() []changing {
	rule := func(mode rules.Consistency, limit string) rules.Rule {
		return rules.Rule{ID: "a", Key: by(user), Limits: limits(limit), Consistency: mode}
	}
	overridden := func(who string, r rules.Rule, limit string) rules.Rule {
		r.Overrides = []rules.Override{{When: is(user, who), Limits: limits(limit)}}
		return r
	}
	return []changing{
		{"the rule changes", func(b *bench, who string, mode rules.Consistency, from, to string) (func(), string) {
			b.put(rule(mode, from))
			return func() { b.put(rule(mode, to)) }, "a:1"
		}},
		{"an override begins", func(b *bench, who string, mode rules.Consistency, from, to string) (func(), string) {
			b.put(rule(mode, from))
			return func() { b.put(overridden(who, rule(mode, from), to)) }, "a:1"
		}},
		{"an override ends", func(b *bench, who string, mode rules.Consistency, from, to string) (func(), string) {
			b.put(overridden(who, rule(mode, to), from))
			return func() { b.put(rule(mode, to)) }, "a:1"
		}},
		{"the client is registered", func(b *bench, who string, mode rules.Consistency, from, to string) (func(), string) {
			b.put(rule(mode, from))
			return func() {
				if err := b.AddClient(rules.Client{ID: who, Limits: limits(to)}); err != nil {
					b.t.Fatal(err)
				}
			}, "a:1"
		}},
		{"the penalty changes", func(b *bench, who string, mode rules.Consistency, from, to string) (func(), string) {
			punished := func(limit string) rules.Rule {
				r := rule(mode, "1000000/s")
				r.Penalty = &rules.Penalty{
					After: rules.Denials{Count: 1, Within: time.Hour}, Limits: limits(limit), For: 300 * 24 * time.Hour,
				}
				return r
			}
			b.put(punished(from))
			if v := b.on(rules.Attributes{user: who}, costs(1000001)); v.Action.Passes() {
				b.t.Fatalf("got %s, want a denial to punish", said(v))
			}
			return func() { b.put(punished(to)) }, "a:~1"
		}},
	}
}

// The level after a change is the level at the client's last decision, drained at the new rate from then on.
func TestAChangedLimitKeepsWhatWasConsumed(t *testing.T) {
	type taking struct {
		after time.Duration
		cost  int64
	}
	busy := []taking{{0, 5}} // so that the bucket is never empty, and 1.4 units are in it at last
	for range 250 {
		busy = append(busy, taking{4700 * time.Millisecond, 1})
	}
	for _, tt := range []struct {
		name, from, to string
		takes          []taking
		pause          time.Duration // before the change
		left           int64         // after it
		retry          time.Duration // of one unit more
	}{
		{"a lower rate", "777/h burst 10", "10/h burst 10", busy, 0, 8, 6 * time.Minute},
		{"a lower rate after a rest", "777/h burst 10", "10/h burst 10", []taking{{0, 10}, {time.Hour, 3}, {time.Second, 1}}, 0, 6, 6 * time.Minute},
		{"a much lower rate", "33333/d burst 100", "100/d burst 100", []taking{{0, 100}, {time.Hour, 2}}, 0, 98, 864 * time.Second},
		{"a higher rate", "10/h burst 10", "7200/h burst 10", []taking{{0, 9}}, time.Second, 3, 500 * time.Millisecond},
		{"a shorter window", "1000/d fixed-window", "1000/h fixed-window", []taking{{0, 999}, {time.Hour, 1}}, time.Minute, 0, 59 * time.Minute},
		{"a longer window", "1000/h fixed-window", "1000/d fixed-window", []taking{{0, 1000}}, time.Minute, 0, 14*time.Hour - time.Minute},
		{"a shorter sliding window", "100/d sliding-window", "100/h sliding-window", []taking{{0, 70}, {time.Minute, 20}}, 0, 10, 0},
		{"a bucket becomes a window", "100/h", "100/h fixed-window", []taking{{0, 40}}, 0, 60, time.Hour},
		{"a window becomes a bucket", "100/h fixed-window", "100/h", []taking{{0, 40}, {time.Minute, 10}}, 0, 50, 36 * time.Second},
		{"a sliding window becomes a bucket", "100/h sliding-window", "100/d", []taking{{0, 40}, {time.Minute, 10}}, 0, 50, 864 * time.Second},
		{"a bucket becomes a sliding window", "100/h", "100/m sliding-window", []taking{{0, 99}}, 0, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEveryMode(t, func(t *testing.T, b *bench, mode rules.Consistency) {
				if mode == rules.Lease && len(tt.takes) > 10 {
					t.Skip("units that expire are handed back by timers, which this clock does not drive")
				}
				for _, how := range changings() {
					t.Run(how.name, func(t *testing.T) {
						b.t = t
						who := strings.ReplaceAll(how.name, " ", "-")
						request := rules.Attributes{user: who}
						b.Advance(34*time.Hour - b.Now().Sub(b.Now().Truncate(24*time.Hour))) // to ten in the morning
						change, name := how.begin(b, who, mode, tt.from, tt.to)
						for _, x := range tt.takes {
							b.Advance(x.after)
							if v := b.on(request, costs(x.cost)); !v.Action.Passes() {
								t.Fatalf("%d units: got %s", x.cost, said(v))
							}
						}
						b.Advance(tt.pause)
						change()
						if left := remaining(t, b.Engine, request); left[name] != tt.left {
							t.Errorf("%s became %s: got %v, want %s=%d", tt.from, tt.to, left, name, tt.left)
						}
						v := b.on(request, costs(tt.left+1))
						if v.Action.Passes() || tt.retry > 0 && v.RetryAfter != tt.retry {
							t.Errorf("one unit more: got %s, retry after %v, want a denial for %v", said(v), v.RetryAfter, tt.retry)
						}
						if tt.left == 0 {
							return
						}
						if v := b.on(request, costs(tt.left)); !v.Action.Passes() {
							t.Errorf("the %d that are left: got %s", tt.left, said(v))
						}
					})
				}
			})
		})
	}
}
