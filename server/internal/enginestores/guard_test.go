package enginestores

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules"
)

// A failingStore is a Limiter whose decisions fail while failing is set.
type failingStore struct {
	headgate.Limiter
	failing atomic.Bool
}

var errRefused = errors.New("connection refused")

func (s *failingStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if s.failing.Load() {
		return headgate.Decision{}, errRefused
	}
	return s.Limiter.Take(ctx, c)
}

func (s *failingStore) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if s.failing.Load() {
		return dst, errRefused
	}
	return s.Limiter.TakeAll(ctx, checks, dst)
}

// A guard in front of the store decides by the policies of the rules, and marks the verdict as degraded.
func TestGuardDecidesByTheRulesPolicies(t *testing.T) {
	store := &failingStore{Limiter: newStore(t, memstore.Options{})}
	g, err := guard.New(store, guard.Options{OnEvent: func(guard.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, g)
	safe := headgate.PerHour(2)
	e := newEngine(t, engine.Config{Store: g, Shared: true, Rules: compile(t, []rules.Rule{
		{ID: "open", When: is(path, "/open"), Limits: limits("5/h")},
		{ID: "closed", When: is(path, "/closed"), Limits: limits("5/h"), OnFailure: headgate.Closed},
		{ID: "local", When: is(path, "/local"), Limits: limits("5/h"), OnFailure: headgate.Local, Safe: &safe},
	})})
	store.failing.Store(true)
	for _, tt := range []struct {
		path  string
		wants []string
	}{
		{"/open", []string{"allow by open", "allow by open", "allow by open"}},
		{"/closed", []string{"reject (store failed) by closed"}},
		{"/local", []string{"allow by local", "allow by local", "reject (over limit) by local"}},
	} {
		for _, want := range tt.wants {
			v := decide(t, e, rules.Attributes{path: tt.path})
			if said(v) != want || !v.Degraded {
				t.Errorf("%s: got %s, degraded %v, want %s", tt.path, said(v), v.Degraded, want)
			}
			cancelled := *v
			if v.Action.Passes() && tt.path == "/open" {
				cancel(t, &cancelled)
			}
		}
	}
}
