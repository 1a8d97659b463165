package client

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// A hung is a service that accepts and never answers.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestAServiceThatDoesNotAnswerIsDecidedByPolicy(t *testing.T) {
	for policy, passes := range map[headgate.Policy]bool{headgate.Open: true, headgate.Closed: false} {
		t.Run(policy.String(), func(t *testing.T) {
			log := new(logbook.Book)
			c, err := New(Options{
				Address: hung(t), Deadline: 20 * time.Millisecond, OnFailure: policy, Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			var group sync.WaitGroup
			start := time.Now()
			for range 16 {
				group.Go(func() {
					for range 20 {
						got, err := c.RateLimit(t.Context(), asks("a", "/"))
						if err != nil || got.Passed != passes || !got.Degraded {
							t.Errorf("got %+v, %v; want passed=%v, degraded", got, err, passes)
						}
						if !passes && (got.HTTPStatus != 503 || got.RetryAfter <= 0) {
							t.Errorf("got %+v, want a 503 that says when", got)
						}
					}
				})
			}
			group.Wait()
			// One by one at their deadline they would take 20 times 20 ms; with the circuit open nobody waits.
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			until(t, "in the log", func() bool { return strings.Contains(log.String(), "does not answer") })
		})
	}
}

// A caller who does not wait for the answer has not heard one: the service is still away.
func TestWhoGivesUpDoesNotSayThatTheServiceIsBack(t *testing.T) {
	c, err := New(Options{Address: hung(t), Deadline: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	until(t, "taken for away", func() bool {
		if _, err := c.RateLimit(t.Context(), asks("a", "/")); err != nil {
			t.Fatal(err)
		}
		return c.circuit.State() == gobreaker.StateOpen
	})
	gone, end := context.WithCancel(t.Context())
	end()
	until(t, "asked again", func() bool {
		_, err := c.RateLimit(gone, asks("a", "/"))
		return err != nil
	})
	if got := c.circuit.State(); got == gobreaker.StateClosed {
		t.Errorf("the circuit is %v after somebody gave up, want it as it was", got)
	}
}

func TestAServiceThatComesBackIsAskedAgain(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	c := h.client(Options{Deadline: 20 * time.Second})
	if got, err := c.RateLimit(t.Context(), asks("a", "/wide")); err != nil || got.Degraded {
		t.Fatalf("got %+v, %v", got, err)
	}
	address := h.address
	h.stop()
	until(t, "degraded", func() bool {
		got, err := c.RateLimit(t.Context(), asks("a", "/wide"))
		return err == nil && got.Degraded
	})
	h.start(address)
	until(t, "asked again", func() bool {
		got, err := c.RateLimit(t.Context(), asks("a", "/wide"))
		return err == nil && !got.Degraded && got.Passed
	})
}

func TestTheGuardDecidesWhenTheServiceIsAway(t *testing.T) {
	h := newHost(t, nil, grpcapi.Config{})
	g, err := h.client(Options{}).Limiter(guard.Options{OnEvent: func(guard.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	ask := func(policy headgate.Policy) headgate.Decision {
		t.Helper()
		check := check("k", 1)
		check.OnFailure = policy
		d, err := g.Take(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	until(t, "asked", func() bool { d := ask(headgate.Closed); return !d.Degraded })
	h.stop()
	until(t, "degraded", func() bool { return ask(headgate.Open).Degraded })
	if d := ask(headgate.Open); !d.Allowed {
		t.Errorf("open: got %+v, want it allowed", d)
	}
	if d := ask(headgate.Closed); d.Allowed {
		t.Errorf("closed: got %+v, want it denied", d)
	}
	h.start(h.address)
	until(t, "exact again", func() bool { return !ask(headgate.Open).Degraded })
}

// Receipts of a guard in the service come through a guard here and back.
func TestReceiptsOfAGuardInTheServiceFindTheirWayBack(t *testing.T) {
	for _, at := range []int64{-1, -2, -1_800_000_000_000_000, 0, 1, 1_800_000_000_000_000} {
		packed := packAt(at)
		if packed < 0 || at >= 0 && packed != at || unpackAt(packed) != at {
			t.Errorf("%d: packed %d, back %d", at, packed, unpackAt(packed))
		}
	}
	store := &degradedStore{}
	h := newHost(t, nil, grpcapi.Config{Store: store})
	g, err := h.client(Options{}).Limiter(guard.Options{Deadline: patience, DenyCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	d, err := g.Take(t.Context(), check("k", 1))
	if err != nil || !d.Degraded || !d.Allowed {
		t.Fatalf("got %+v, %v; want what the service's guard decided", d, err)
	}
	if err := g.Give(t.Context(), check("k", 1), d.Receipt); err != nil {
		t.Fatal(err)
	}
	if store.given != (headgate.Receipt{At: -77, Units: 1}) {
		t.Errorf("the service got %+v, want its own receipt", store.given)
	}
}

// A degradedStore answers as a guard does whose store is away.
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
