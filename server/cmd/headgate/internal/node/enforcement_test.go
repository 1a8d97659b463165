package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

// newTestEnforcement returns an enforcement whose rules a and b allow nothing after the first request of an hour.
func newTestEnforcement(t *testing.T) *enforcement {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	decider, err := engine.New(engine.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := headgate.ParseLimit("1/h")
	if err != nil {
		t.Fatal(err)
	}
	set, err := match.Compile([]rules.Rule{
		{ID: "a", Limits: []rules.Limit{{Limit: limit}}}, {ID: "b", Limits: []rules.Limit{{Limit: limit}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnforcement(decider, false, telemetry.New("test"), slog.New(slog.DiscardHandler))
	if _, err := e.apply(set); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} { // consume the first request
		wantAction(t, e, id, engine.Allow)
	}
	return e
}

func wantAction(t *testing.T, e *enforcement, rule string, want engine.Action) {
	t.Helper()
	var v engine.Verdict
	if err := e.engine.DecideWith(context.Background(), rules.Attributes{}, engine.DecideOptions{Rule: rule}, &v); err != nil {
		t.Fatal(err)
	}
	if v.Action != want {
		t.Errorf("rule %s: got %v, want %v", rule, v.Action, want)
	}
}

func TestSuspendedRulesAdmitUntilTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEnforcement(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.run(ctx)
		}()
		wantAction(t, e, "a", engine.Reject)
		e.turnOff(control.Suspension{Rule: "a", Expires: time.Now().Add(time.Minute)})
		wantAction(t, e, "a", engine.Allow)
		wantAction(t, e, "b", engine.Reject)
		e.setFleetSuspensions([]control.Suspension{{Expires: time.Now().Add(2 * time.Minute)}})
		wantAction(t, e, "b", engine.Allow)
		if f := e.stats(); f.RulesOff != 2 || f.Suspensions[control.ScopeFleet] != 1 || f.Suspensions[control.ScopeNode] != 1 {
			t.Errorf("both suspended: got %+v", f)
		}

		// The suspension of the node ends first, and that of the fleet still covers the rule.
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if list := e.activeSuspensions(); len(list) != 1 || list[0].Scope != control.ScopeFleet {
			t.Errorf("after a minute: got %+v, want that of the fleet", list)
		}
		wantAction(t, e, "a", engine.Allow)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			wantAction(t, e, id, engine.Reject)
		}
		if f := e.stats(); f.RulesOff != 0 || !f.Ends.IsZero() {
			t.Errorf("after all have expired: got %+v", f)
		}
		cancel()
		<-done
	})
}

func TestNewRulesStaySuspended(t *testing.T) {
	e := newTestEnforcement(t)
	e.turnOff(control.Suspension{Expires: time.Now().Add(time.Minute)})
	if _, err := e.apply(e.loaded); err != nil {
		t.Fatal(err)
	}
	wantAction(t, e, "a", engine.Allow)
	e.turnOn("")
	wantAction(t, e, "a", engine.Reject)
}
