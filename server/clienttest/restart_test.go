package clienttest

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func TestRestartedServiceIsUsedAgain(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(client.Options{Deadline: 20 * time.Second})
	if got, err := c.RateLimit(t.Context(), request("a", "/high")); err != nil || got.Degraded {
		t.Fatalf("got %+v, %v", got, err)
	}
	address := h.address
	h.stop()
	await.True(t, "the decision is degraded", func() bool {
		got, err := c.RateLimit(t.Context(), request("a", "/high"))
		return err == nil && got.Degraded
	})
	h.start(address)
	await.True(t, "used again", func() bool {
		got, err := c.RateLimit(t.Context(), request("a", "/high"))
		return err == nil && !got.Degraded && got.Passed
	})
}

func TestGuardDecidesWhileTheServiceIsDown(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	g, err := h.client(client.Options{}).Limiter(guard.Options{OnEvent: func(guard.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	ask := func(policy headgate.Policy) headgate.Decision {
		t.Helper()
		check := perHour("k", 1)
		check.OnFailure = policy
		d, err := g.Take(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	await.True(t, "more calls", func() bool { d := ask(headgate.Closed); return !d.Degraded })
	h.stop()
	await.True(t, "the decision is degraded", func() bool { return ask(headgate.Open).Degraded })
	if d := ask(headgate.Open); !d.Allowed {
		t.Errorf("open: got %+v, want it allowed", d)
	}
	if d := ask(headgate.Closed); d.Allowed {
		t.Errorf("closed: got %+v, want it denied", d)
	}
	h.start(h.address)
	await.True(t, "the service decides again", func() bool { return !ask(headgate.Open).Degraded })
}

// Receipts of a guard in the service pass through the guard of the client unchanged.
func TestReceiptsOfTheServicesGuardSurviveTheRoundTrip(t *testing.T) {
	store := &degradedStore{}
	h := newHost(t, nil, grpcapi.Config{Store: store})
	g, err := h.client(client.Options{}).Limiter(guard.Options{Deadline: patience, DenyCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	d, err := g.Take(t.Context(), perHour("k", 1))
	if err != nil || !d.Degraded || !d.Allowed {
		t.Fatalf("got %+v, %v; want the decision of the service's guard", d, err)
	}
	if err := g.Give(t.Context(), perHour("k", 1), d.Receipt); err != nil {
		t.Fatal(err)
	}
	if store.given != (headgate.Receipt{At: -77, Units: 1}) {
		t.Errorf("the service got %+v, want its own receipt", store.given)
	}
}

// A degradedStore decides like a guard whose store is unreachable.
type degradedStore struct {
	headgate.Limiter
	given headgate.Receipt
}

func (*degradedStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{Allowed: true, Degraded: true, Limit: 3, Remaining: 2, Receipt: headgate.Receipt{At: -77, Units: 1}}, nil
}

func (s *degradedStore) Give(_ context.Context, _ headgate.Check, r headgate.Receipt) error {
	s.given = r
	return nil
}
