package grpcapi

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// An overloadedStore has too much to do for any decision.
type overloadedStore struct{ headgate.Limiter }

func (overloadedStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrOverloaded
}

func (overloadedStore) TakeAll(_ context.Context, _ []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return dst, headgate.ErrOverloaded
}

// Too many requests at once are refused. The rule's on_failure, which is open, does not decide them.
func TestOverloadIsRefused(t *testing.T) {
	store := overloadedStore{newStore(t, nil)}
	_, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText)), Store: store})
	conn := dial(t, address)
	got, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("alice", "/api/x"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Passed || got.Degraded || got.Reason != headgatev1.Reason_REASON_OVERLOADED ||
		got.HttpStatus != 503 || got.RetryAfterMs != 1000 {
		t.Errorf("RateLimit: got %v, want it refused with 503 for a second", got)
	}
	result := do(t, headgatev1.NewStoreClient(conn), operation(take, "k"))[0]
	if result.Failure.GetFault() != headgatev1.Fault_FAULT_OVERLOADED || len(result.Decisions) > 0 {
		t.Errorf("Do: got %v, want %v and no decision", result, headgatev1.Fault_FAULT_OVERLOADED)
	}
}
