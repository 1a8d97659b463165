package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// A remote is a store that can be unreachable.
type remote struct {
	headgate.Limiter
	away  bool
	calls int
}

func (r *remote) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	r.calls++
	if r.away {
		return headgate.Decision{}, errors.New("connection refused")
	}
	return r.Limiter.Take(ctx, c)
}

// example returns a guard of a remote, with a clock that stands still until it is set, so that the outputs below are
// always the same.
func example(o guard.Options) (g *guard.Guard, r *remote, clock *limittest.Clock, done func()) {
	clock = limittest.NewClock()
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		panic(err)
	}
	r = &remote{Limiter: store}
	o.Now = clock.Now
	o.OnEvent = func(guard.Event) {}
	g, err = guard.New(r, o)
	if err != nil {
		panic(err)
	}
	return g, r, clock, func() {
		if err := errors.Join(g.Close(), store.Close()); err != nil {
			panic(err)
		}
	}
}

// The policy of each check decides it when the store does not respond.
func ExampleNew() {
	g, store, _, done := example(guard.Options{
		Deadline: 5 * time.Millisecond,
		Nodes:    func() int { return 5 }, // each has a fifth of a limit while the store is down
	})
	defer done()
	store.away = true
	for _, policy := range []headgate.Policy{headgate.Open, headgate.Closed, headgate.Local} {
		d, err := g.Take(context.Background(), headgate.Check{
			Key: "search/alice", Limit: headgate.PerSecond(10), Cost: 1, OnFailure: policy,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: allowed %v, %d of %d left, degraded %v\n", policy, d.Allowed, d.Remaining, d.Limit, d.Degraded)
	}
	// Output:
	// open: allowed true, 9 of 10 left, degraded true
	// closed: allowed false, 0 of 10 left, degraded true
	// local: allowed true, 1 of 2 left, degraded true
}

// A client that ignores denials is denied without a store call, until its denial ends.
func ExampleGuard_Take() {
	g, store, clock, done := example(guard.Options{})
	defer done()
	check := headgate.Check{Key: "search/alice", Limit: headgate.MustParseLimit("10/m burst 1"), Cost: 1}
	for range 4 {
		d, err := g.Take(context.Background(), check)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("allowed %v, come back in %v, %d calls of the store\n", d.Allowed, d.RetryAfter, store.calls)
		clock.Advance(300 * time.Millisecond)
	}
	fmt.Println("denied without the store:", g.Stats().CacheHits)
	// Output:
	// allowed true, come back in 0s, 1 calls of the store
	// allowed false, come back in 5.7s, 2 calls of the store
	// allowed false, come back in 5.4s, 2 calls of the store
	// allowed false, come back in 5.1s, 2 calls of the store
	// denied without the store: 2
}

func ExampleGuard_Shards() {
	g, store, _, done := example(guard.Options{})
	defer done()
	store.away = true
	for range 6 {
		if _, err := g.Take(context.Background(), headgate.Check{
			Key: "search/alice", Limit: headgate.PerSecond(10), Cost: 1,
		}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, s := range g.Shards() {
		fmt.Printf("open %v: %v, after %d calls\n", s.Open, s.Err, store.calls)
	}
	fmt.Println("let pass:", g.Stats().Open)
	// Output:
	// open true: connection refused, after 5 calls
	// let pass: 6
}
