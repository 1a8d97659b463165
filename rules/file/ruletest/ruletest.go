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

// Starter returns a function for testfile.File.Run that starts a case with empty counters. All rules use the same
// store, which counts exactly, whatever their consistency is. A delayed request continues immediately.
func Starter(set *match.Set) func() (testfile.Decide, error) {
	return func() (testfile.Decide, error) {
		var clk clock
		store := stepstore.New(clk.now)
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
		inFlight := make(map[*engine.Verdict]bool)
		return func(at time.Duration, request rules.Subject) (testfile.Decision, error) {
			clk.set(at)
			// Renew the slots of requests in flight, as a server does.
			for v := range inFlight {
				if err := v.RenewSlots(ctx); err != nil {
					return testfile.Decision{}, err
				}
			}
			v := &engine.Verdict{}
			if err := e.Decide(ctx, request, v); err != nil {
				return testfile.Decision{}, fmt.Errorf("decide: %w", err)
			}
			d := newDecision(v)
			if v.Action.Passes() {
				inFlight[v] = true
				d.Finish = func(at time.Duration, response func(string) string) error {
					clk.set(at)
					delete(inFlight, v)
					return v.Settle(ctx, response)
				}
			}
			return d, failure
		}, nil
	}
}

// verdicts maps actions of the engine to the verdicts of test files.
var verdicts = map[engine.Action]testfile.Verdict{
	engine.Allow: testfile.Allow, engine.Delay: testfile.Delay, engine.Reject: testfile.Reject, engine.Drop: testfile.Drop,
}

func newDecision(v *engine.Verdict) testfile.Decision {
	d := testfile.Decision{
		Verdict: verdicts[v.Action], Remaining: v.Decision.Remaining, RetryAfter: v.RetryAfter,
		Delay: v.Delay, Status: v.Status,
	}
	if v.Rule != nil {
		d.Rule = v.Rule.ID
	}
	return d
}

// A clock is the simulated clock of a case. It starts at caseStart.
type clock struct {
	mu sync.Mutex
	at time.Duration // since caseStart
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
