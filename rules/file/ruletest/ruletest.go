// Package ruletest runs rule test files with the real engine, in simulated time.
package ruletest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/testfile"
	"github.com/headgate/headgate/rules/match"
)

// caseStart is the start of every case: midnight, so that windows of a day or less begin with it.
var caseStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Start returns a function that begins a case, for testfile.File.Run. One store counts exactly, whatever consistency
// the rules ask for. A delayed request takes no time.
func Start(set *match.Set) func() (testfile.Decide, error) {
	return func() (testfile.Decide, error) {
		var clock clock
		store := stepstore.New(clock.now)
		var failure error
		e, err := engine.New(engine.Config{
			Rules: set, Store: store, MaxWaiting: math.MaxInt32, OnError: func(err error) { failure = err },
			Modes:  map[rules.Consistency]headgate.Limiter{rules.Lease: store, rules.Async: store, rules.Gossip: store},
			Global: map[rules.Consistency]headgate.Limiter{rules.Exact: store, rules.Lease: store, rules.Async: store},
		})
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		served := make(map[*engine.Verdict]bool) // requests that have not ended
		return func(at time.Duration, request rules.Subject) (testfile.Decision, error) {
			clock.set(at)
			for v := range served { // as a server does while it serves requests
				if err := v.RenewSlots(ctx); err != nil {
					return testfile.Decision{}, err
				}
			}
			v := &engine.Verdict{}
			if err := e.Decide(ctx, request, v); err != nil {
				return testfile.Decision{}, fmt.Errorf("decide: %w", err)
			}
			a := newDecision(v)
			if v.Action.Passes() {
				served[v] = true
				a.Finish = func(at time.Duration, response func(string) string) error {
					clock.set(at)
					delete(served, v)
					return v.Settle(ctx, response)
				}
			}
			return a, failure
		}, nil
	}
}

var verdicts = map[engine.Action]testfile.Verdict{
	engine.Allow: testfile.Allow, engine.Delay: testfile.Delay, engine.Reject: testfile.Reject, engine.Drop: testfile.Drop,
}

func newDecision(v *engine.Verdict) testfile.Decision {
	a := testfile.Decision{
		Verdict: verdicts[v.Action], Remaining: v.Decision.Remaining, RetryAfter: v.RetryAfter,
		Delay: v.Delay, Status: v.Status,
	}
	if v.Rule != nil {
		a.Rule = v.Rule.ID
	}
	return a
}

// A clock shows the time since a case began.
type clock struct {
	mu sync.Mutex
	at time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return caseStart.Add(c.at)
}

func (c *clock) set(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}
