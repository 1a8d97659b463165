package envoyrls_test

import (
	"context"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// overloaded is a store that has too much to do for any decision.
type overloaded struct{ headgate.Limiter }

func (overloaded) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrOverloaded
}

func (overloaded) TakeAll(_ context.Context, _ []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return dst, headgate.ErrOverloaded
}

func (overloaded) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrOverloaded
}

// Too many requests at once are over the limit. An error would let them pass, as Envoy fails open by default.
func TestOverloadIsOverLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "d.yaml", limits("d", 5))
	set, err := match.Compile([]rules.Rule{{
		ID: "r", Namespace: "d", Key: []headgate.Attribute{{Kind: headgate.AttrDescriptor, Name: "user"}},
		Limits: []rules.Limit{{Limit: headgate.PerHour(5)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	byRules, err := engine.New(engine.Config{Store: overloaded{newSmallStore(t)}, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	fails := func(err error) { t.Errorf("got the error %v, want none: the store has not failed", err) }
	for name, c := range map[string]envoyrls.Config{
		"configuration":                        {Path: dir, OnError: fails},
		"configuration, counts denied":         {Path: dir, CountDenied: true, OnError: fails},
		"configuration, counts denied, closed": {Path: dir, CountDenied: true, OnFailure: headgate.Closed, OnError: fails},
		"rules":                                {Engine: byRules, OnError: fails},
	} {
		c.Store = overloaded{newSmallStore(t)}
		got, err := dial(t, newServer(t, c)).ShouldRateLimit(t.Context(), asking("d", "alice"))
		if err != nil || got.GetOverallCode() != rlspb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%s: got %v, %v; want OVER_LIMIT", name, got, err)
		}
	}
}
