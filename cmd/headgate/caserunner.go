package main

import (
	"context"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/testfile"
)

// A caseRunner decides the cases of test files: as the engine does, in memory, at a time that it is told.
type caseRunner struct {
	set   *rules.Set
	store *memstore.Store // of the case that is being run
}

// caseBytes is how much memory a case may take for its counters.
const caseBytes = 64 << 20

// caseBegin is when cases begin. It is the beginning of an hour and of a day, so that windows begin there, too.
var caseBegin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// start begins a case, with nothing consumed. What passes holds its place under concurrency limits until the case ends.
func (c *caseRunner) start() (testfile.Decide, error) {
	c.close()
	now := caseBegin
	store, err := memstore.New(memstore.Options{MaxBytes: caseBytes, Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	c.store = store
	e, err := engine.New(engine.Config{Rules: c.set, Store: store})
	if err != nil {
		return nil, err
	}
	return func(at time.Duration, request rules.Subject) (testfile.Answer, error) {
		now = caseBegin.Add(at)
		var v engine.Verdict
		if err := e.Decide(context.Background(), request, &v); err != nil {
			return testfile.Answer{}, err
		}
		a := testfile.Answer{
			Verdict: testfile.Verdict(v.Action.String()), Remaining: v.Decision.Remaining,
			RetryAfter: v.RetryAfter, Delay: v.Delay, Status: v.Status,
		}
		if v.Rule != nil {
			a.Rule = v.Rule.ID
		}
		return a, nil
	}, nil
}

// close ends the case.
func (c *caseRunner) close() {
	if c.store != nil {
		_ = c.store.Close() // it is open
		c.store = nil
	}
}
