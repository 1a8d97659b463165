package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

func TestBusyProcessRefusesLimitedRequests(t *testing.T) {
	var busy atomic.Bool
	observed := 0
	b := newBenchWith(t, engine.Config{TooBusy: busy.Load, Observe: func(v *engine.Verdict) {
		if v.Reason == engine.Overloaded {
			observed++
		}
	}}, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/h")})
	busy.Store(true)
	for range 3 {
		v := b.ask(alice())
		if said(v) != "reject (overloaded) by a" || v.Status != 503 || v.RetryAfter != time.Second || v.Degraded {
			t.Errorf("got %s, status %d, retry after %v, degraded %v", said(v), v.Status, v.RetryAfter, v.Degraded)
		}
	}
	var batch engine.Batch
	batch.Add(context.Background(), b.Engine, alice(), &engine.DecideOptions{})
	batch.Decide(context.Background())
	if v, err := batch.Verdict(0); err != nil || said(v) != "reject (overloaded) by a" {
		t.Errorf("in a batch: got %s, %v", said(v), err)
	}
	if observed != 4 {
		t.Errorf("got %d refusals observed, want 4", observed)
	}
	busy.Store(false)
	if v := b.ask(alice()); v.Action != engine.Allow || v.Decision.Remaining != 9 {
		t.Errorf("got %s with %d remaining, want allowed with 9: refused requests take nothing", said(v), v.Decision.Remaining)
	}
}

func TestBusyProcessServesRequestsThatNothingLimits(t *testing.T) {
	shadow := rules.Rule{ID: "a", Key: by(user), Limits: limits("1/h")}
	shadow.OnLimit.Action = rules.Shadow
	busy := engine.Config{TooBusy: func() bool { return true }}
	for _, b := range []*bench{newBenchWith(t, busy), newBenchWith(t, busy, shadow)} {
		if v := b.ask(alice()); v.Action != engine.Allow {
			t.Errorf("got %s, want it to pass", said(v))
		}
	}
}
