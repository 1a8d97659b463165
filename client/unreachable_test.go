package client

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
)

func TestPolicyDecidesForASilentService(t *testing.T) {
	for policy, passes := range map[headgate.Policy]bool{headgate.Open: true, headgate.Closed: false} {
		t.Run(policy.String(), func(t *testing.T) {
			log := new(logbook.Book)
			c := newClient(t, Options{
				Address: silentAddress(t), Deadline: 20 * time.Millisecond, OnFailure: policy,
				Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			start := time.Now()
			concurrently(16, 20, func(_, _ int) {
				got, err := c.RateLimit(t.Context(), Request{User: "a"})
				if err != nil || got.Passed != passes || !got.Degraded {
					t.Errorf("got %+v, %v; want passed=%v, degraded", got, err, passes)
				}
				if !passes && (got.HTTPStatus != 503 || got.RetryAfter <= 0) {
					t.Errorf("got %+v, want status 503 and RetryAfter", got)
				}
			})
			// Calls that each wait for their deadline would take 400 ms; once the circuit is open they do not wait.
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			await.True(t, "the log names the state", func() bool { return strings.Contains(log.String(), "unreachable") })
		})
	}
}

func TestLogSaysWhenTheServiceIsReachableAgain(t *testing.T) {
	log := new(logbook.Book)
	c := newClient(t, Options{Address: silentAddress(t), Logger: slog.New(slog.NewTextHandler(log, nil))})
	c.logCircuit("limits:8082", gobreaker.StateClosed, gobreaker.StateOpen)
	c.logCircuit("limits:8082", gobreaker.StateHalfOpen, gobreaker.StateClosed)
	for _, want := range []string{
		`level=WARN msg="decision service unreachable, deciding by policy" service=limits:8082 policy=open`,
		`level=INFO msg="decision service reachable again" service=limits:8082`,
	} {
		if got := log.String(); !strings.Contains(got, want) {
			t.Errorf("got log\n%s\nwant a line with %s", got, want)
		}
	}
}

// A caller that gave up has seen no response, so its call says nothing about the service.
func TestCanceledCallDoesNotCloseTheCircuit(t *testing.T) {
	c := newClient(t, Options{Address: silentAddress(t), Deadline: 20 * time.Millisecond})
	await.True(t, "the circuit is open", func() bool {
		if _, err := c.RateLimit(t.Context(), Request{User: "a"}); err != nil {
			t.Fatal(err)
		}
		return c.circuit.State() == gobreaker.StateOpen
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	await.True(t, "the service is probed", func() bool {
		_, err := c.RateLimit(canceled, Request{User: "a"})
		return err != nil
	})
	if got := c.circuit.State(); got == gobreaker.StateClosed {
		t.Errorf("the circuit is %v after a canceled call, want it unchanged", got)
	}
}

func TestCloseEndsUnaryCalls(t *testing.T) {
	c, err := New(Options{Address: silentAddress(t), Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var closed atomic.Int64
	for range 40 {
		group.Go(func() {
			if _, err := c.Store().Take(t.Context(), perHour("k", 1)); errors.Is(err, headgate.ErrClosed) {
				closed.Add(1)
			} else {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	await.True(t, "a call is under way", func() bool {
		c.storeCalls.mu.Lock()
		defer c.storeCalls.mu.Unlock()
		return c.storeCalls.calls > 0
	})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, err := c.RateLimit(t.Context(), Request{}); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("after Close: got %v, want ErrClosed", err)
	}
}

func TestPendingCallsKeepTheirDeadline(t *testing.T) {
	c := newClient(t, Options{Address: silentAddress(t), Deadline: 100 * time.Millisecond, MaxBatch: 1})
	start := time.Now()
	concurrently(200, 1, func(_, _ int) {
		if _, err := c.Store().Take(t.Context(), perHour("k", 1)); !isServiceFailure(err) {
			t.Errorf("got %v, want an error of the service", err)
		}
	})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v, want about 100ms", took)
	}
}

func TestReceiptTimesSurvivePacking(t *testing.T) {
	for _, at := range []int64{-1, -2, -1_800_000_000_000_000, 0, 1, 1_800_000_000_000_000} {
		packed := packAt(at)
		if packed < 0 || at >= 0 && packed != at || unpackAt(packed) != at {
			t.Errorf("%d: packed %d, unpacked %d", at, packed, unpackAt(packed))
		}
	}
}

func perHour(key string, cost int64) headgate.Check {
	return headgate.Check{Key: key, Limit: headgate.PerHour(3), Cost: cost}
}
