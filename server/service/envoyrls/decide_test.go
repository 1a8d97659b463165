package envoyrls_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// A meeting is a store that responds only after a number of concurrent calls.
type meeting struct {
	headgate.Limiter
	wait sync.WaitGroup
}

func (m *meeting) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	m.wait.Done()
	m.wait.Wait()
	return m.Limiter.Charge(ctx, c)
}

func TestDescriptorsAreDecidedConcurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	m := &meeting{Limiter: newSmallStore(t)}
	m.wait.Add(5)
	client := dial(t, newServer(t, envoyrls.Config{Path: dir, Store: m, CountDenied: true}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := client.ShouldRateLimit(ctx, asking("api", "a", "b", "c", "d", "e"))
	if err != nil {
		t.Fatal(err)
	}
	for i, st := range r.Statuses {
		if st.LimitRemaining != 9 {
			t.Errorf("status %d: got %d left, want 9", i, st.LimitRemaining)
		}
	}
}

// broken is a store that fails.
type broken struct{ headgate.Limiter }

var errBroken = errors.New("broken")

func (broken) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, errBroken
}

func (broken) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, errBroken
}

func TestPolicyDecidesWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}\n- {key: banned, rate_limit: {unit: hour, requests_per_unit: 0}}\n")
	for policy, want := range map[headgate.Policy]string{
		headgate.Open:   "OK: OK 9 of 10/HOUR",
		headgate.Closed: "OVER_LIMIT: OVER_LIMIT 0 of 10/HOUR",
	} {
		var told atomic.Int64
		s := newServer(t, envoyrls.Config{
			Path: dir, Store: broken{}, CountDenied: true, OnFailure: policy,
			OnError: func(err error) {
				if errors.Is(err, errBroken) {
					told.Add(1)
				}
			},
		})
		client := dial(t, s)
		r, err := client.ShouldRateLimit(t.Context(), asking("api", "a"))
		if err != nil {
			t.Fatal(err)
		}
		if got := answerText(r); !strings.HasPrefix(got, want) {
			t.Errorf("%v: got %s, want %s", policy, got, want)
		}
		if told.Load() != 1 || s.Stats().Degraded != 1 {
			t.Errorf("%v: got %d calls of OnError and a count of %d, want 1 and 1", policy, told.Load(), s.Stats().Degraded)
		}
		banned := asking("api", "a")
		banned.Descriptors[0].Entries[0].Key = "banned"
		if r, err = client.ShouldRateLimit(t.Context(), banned); err != nil || r.OverallCode != rlspb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%v: a limit of 0: got %v, %v; want OVER_LIMIT whatever the policy", policy, r, err)
		}
	}
}

func TestConcurrentCallersGetExactlyTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "domain: api\ndescriptors:\n- {key: user, rate_limit: {unit: year, requests_per_unit: 100}}\n")
	now := time.Unix(1_700_000_000, 0)
	client := dial(t, newServer(t, envoyrls.Config{
		Path: dir, CountDenied: true, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20, Now: func() time.Time { return now }}),
	}))
	var passed [3]atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for i := range 30 {
				r, err := client.ShouldRateLimit(t.Context(), asking("api", fmt.Sprint("user", i%3), "other"))
				if err != nil {
					t.Error(err)
					return
				}
				if r.Statuses[0].Code == rlspb.RateLimitResponse_OK {
					passed[i%3].Add(1)
				}
			}
		})
	}
	group.Wait()
	for i := range passed {
		if got := passed[i].Load(); got != 100 {
			t.Errorf("user %d: got %d of 200 through, want 100", i, got)
		}
	}
}
