package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// inTurn delays requests over the limit by up to three seconds.
var inTurn = []rules.Rule{{
	ID: "in-turn", Key: byAPIKey, Limits: enginetest.Limits("1/s"),
	OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: 3 * time.Second},
}}

// ask sends a request of a client and returns the status, 0 if ctx ends before.
func ask(ctx context.Context, t *testing.T, c *http.Client, key string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example.com/", http.NoBody)
	if err != nil {
		t.Error(err)
		return 0, nil
	}
	r.Header.Set("X-API-Key", key)
	resp, err := c.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return 0, nil
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, resp.Header
}

func TestDelayedRequestsAreServedWhenItIsTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTimedGate(t, inTurn, httplimit.Config{})
		client := serveInMemory(t, g.limit(ok))
		start := time.Now()
		var mu sync.Mutex
		var served []time.Duration
		denied := 0
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				status, header := ask(t.Context(), t, client, "alice")
				mu.Lock()
				defer mu.Unlock()
				switch status {
				case http.StatusOK:
					served = append(served, time.Since(start))
				case http.StatusTooManyRequests:
					denied++
					if got := time.Since(start); got != 0 {
						t.Errorf("denied after %v, want at once", got)
					}
					if got := header.Get("Retry-After"); got != "1" {
						t.Errorf("Retry-After %q, want 1", got)
					}
				default:
					t.Errorf("status %d, want 200 or 429", status)
				}
			})
		}
		all.Wait()
		slices.Sort(served)
		want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}
		if !slices.Equal(served, want) || denied != 2 {
			t.Errorf("served after %v and denied %d, want %v and 2", served, denied, want)
		}
		if n := g.engine.Waiting(); n != 0 {
			t.Errorf("%d are waiting still, want 0", n)
		}
	})
}

func TestClientsThatHangUpWhileDelayedReturnTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTimedGate(t, inTurn, httplimit.Config{})
		var served atomic.Int32
		client := serveInMemory(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served.Add(1)
			ok(w, r)
		})))
		ask(t.Context(), t, client, "alice") // takes what is there
		var all sync.WaitGroup
		ctx, hangUp := context.WithCancel(t.Context())
		for range 3 {
			all.Go(func() { ask(ctx, t, client, "alice") })
		}
		synctest.Wait()
		if n := g.engine.Waiting(); n != 3 {
			t.Fatalf("%d are waiting, want 3", n)
		}
		hangUp()
		all.Wait()
		synctest.Wait()
		if n := g.engine.Waiting(); n != 0 {
			t.Errorf("%d are waiting after they hung up, want 0", n)
		}
		if n := served.Load(); n != 1 {
			t.Errorf("%d were served, want the first only", n)
		}
		start := time.Now()
		status, _ := ask(t.Context(), t, client, "alice")
		if waited := time.Since(start); status != http.StatusOK || waited != time.Second {
			t.Errorf("the next got %d after %v, want 200 after 1s, as if the others had never come", status, waited)
		}
	})
}

func TestRequestsWhoseTimeEndsBeforeTheirTurnAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTimedGate(t, inTurn, httplimit.Config{})
		limited := g.limit(ok)
		client := serveInMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond)
			defer cancel()
			limited.ServeHTTP(w, r.WithContext(ctx))
		}))
		ask(t.Context(), t, client, "alice")
		start := time.Now()
		status, header := ask(t.Context(), t, client, "alice")
		if got := time.Since(start); got != 0 {
			t.Errorf("answered after %v, want at once: its turn comes too late", got)
		}
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" {
			t.Errorf("status %d, Retry-After %q, want 503 and 1", status, header.Get("Retry-After"))
		}
	})
}

func TestRequestThatIsCancelledBeforeItIsDecidedIsNotServed(t *testing.T) {
	g := newGate(t, perIP("1/s"), httplimit.Config{})
	g.store.OnTakeAll = func(ctx context.Context) error { return ctx.Err() }
	h := g.limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was served") }))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("hung up"))
	w := &scrap{header: http.Header{}}
	h.ServeHTTP(w, bareRequest(t).WithContext(ctx))
	if w.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.status)
	}
}
