package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// respond returns the response to a request of a user.
func respond(h http.Handler, user string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// Limits by plan, without rules.
func ExampleBy() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	limited := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
		user := r.Header.Get("X-User")
		return user, planOf(user)
	})(hello)
	for _, user := range []string{"alice", "alice", "bob", "bob"} {
		fmt.Println(user, respond(limited, user).StatusCode)
	}
	// Output:
	// alice 200
	// alice 200
	// bob 200
	// bob 429
}

// planOf returns the limit of a user's plan.
func planOf(user string) headgate.Limit {
	if user == "alice" {
		return headgate.PerHour(1000)
	}
	return headgate.PerHour(1)
}

func ExampleWriteHeaders() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.PerMinute(1))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := perUser.Take(r.Context(), r.Header.Get("X-User"), 1)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		httplimit.WriteHeaders(w.Header(), d)
		if !d.Allowed {
			http.Error(w, "come back later", http.StatusTooManyRequests)
		}
	})
	respond(handler, "alice")
	response := respond(handler, "alice")
	fmt.Println(response.StatusCode, response.Header.Get("Retry-After"), response.Header.Get("X-RateLimit-Remaining"))
	// Output: 429 60 0
}

// X-RateLimit-Reset is rounded up, as it is by New: the bubble's clock starts at a full second.
func TestWriteHeadersOfEachDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := func(seconds int64) string { return strconv.FormatInt(time.Now().Unix()+seconds, 10) }
		for _, tt := range []struct {
			name                    string
			d                       headgate.Decision
			limit, remaining, reset string
			retryAfter              string
		}{
			{
				"allowed",
				headgate.Decision{Allowed: true, Limit: 5, Remaining: 4, ResetAfter: 1500 * time.Millisecond},
				"5", "4", later(2), "77",
			},
			{"never", headgate.Decision{Limit: 5, RetryAfter: headgate.Never}, "5", "0", later(0), ""},
			{
				"degraded",
				headgate.Decision{Degraded: true, Limit: 5, Remaining: 5, RetryAfter: time.Second},
				"", "", "", "1",
			},
			{"without a limit", headgate.Decision{RetryAfter: time.Minute}, "", "", "", "60"},
			{
				"endless",
				headgate.Decision{Allowed: true, Limit: 5, ResetAfter: headgate.Never},
				"5", "0", later(9223372037), "77",
			},
		} {
			h := http.Header{"Retry-After": {"77"}}
			httplimit.WriteHeaders(h, tt.d)
			for name, want := range map[string]string{
				"X-RateLimit-Limit": tt.limit, "X-RateLimit-Remaining": tt.remaining,
				"X-RateLimit-Reset": tt.reset, "Retry-After": tt.retryAfter,
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%s: got %s %q, want %q", tt.name, name, got, want)
				}
			}
		}
	})
}

func TestByRenewsASlotWhileTheHandlerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		limit := httplimit.By(store, func(*http.Request) (string, headgate.Limit) {
			return "alice", headgate.MustParseLimit("1 concurrent ttl 1s")
		})
		h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(10 * time.Second)
			if got := respond(limit(hello), "").StatusCode; got != 429 {
				t.Errorf("after ten TTLs: got %d for another request, want 429", got)
			}
		}))
		respond(h, "")
		if got := respond(limit(hello), "").StatusCode; got != 200 {
			t.Errorf("after the handler: got %d, want 200", got)
		}
	})
}

func TestByDelaysUnderALeakyBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		h := httplimit.By(store, func(*http.Request) (string, headgate.Limit) {
			return "alice", headgate.MustParseLimit("1/s leaky-bucket burst 5")
		})(hello)
		start := time.Now()
		for i := range 5 {
			if got := respond(h, "").StatusCode; got != 200 || time.Since(start) != time.Duration(i)*time.Second {
				t.Errorf("request %d: got %d after %v, want 200 after %d s", i, got, time.Since(start), i)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if w.Code != 503 {
			t.Errorf("with too early a deadline: got %d, want 503", w.Code)
		}
	})
}

func TestWriteHeadersHasNoRetryAfterForNever(t *testing.T) {
	for _, tt := range []struct {
		d    headgate.Decision
		want string
	}{
		{headgate.Decision{RetryAfter: headgate.Never}, ""},
		{headgate.Decision{RetryAfter: time.Millisecond}, "1"},
		{headgate.Decision{RetryAfter: 1001 * time.Millisecond}, "2"},
		{headgate.Decision{Allowed: true}, ""},
	} {
		h := http.Header{}
		httplimit.WriteHeaders(h, tt.d)
		if got := h.Get("Retry-After"); got != tt.want {
			t.Errorf("%+v: got Retry-After %q, want %q", tt.d, got, tt.want)
		}
	}
}

// failing is a limiter that fails.
type failing struct {
	headgate.Limiter
	err error
}

func (f failing) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, f.err
}

func TestByWithoutAKeyOrLimiter(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	by := func(l headgate.Limiter, limit headgate.Limit) http.Handler {
		return httplimit.By(l, func(r *http.Request) (string, headgate.Limit) { return r.Header.Get("X-User"), limit })(hello)
	}
	unnamed := by(store, headgate.PerHour(1))
	if first, second := respond(unnamed, "").StatusCode, respond(unnamed, "").StatusCode; first != 200 || second != 429 {
		t.Errorf("requests without a key: got %d and %d, want them to share a counter: 200 and 429", first, second)
	}
	exempt := by(store, httplimit.Exempt)
	for range 3 {
		if got := respond(exempt, "alice").StatusCode; got != 200 {
			t.Errorf("Exempt: got %d, want 200", got)
		}
	}
	if got := respond(by(limittest.Allowing(), headgate.Limit{}), "alice").StatusCode; got != 503 {
		t.Errorf("the zero Limit, as of a mistyped plan: got %d, want 503", got)
	}
	if got := respond(unnamed, strings.Repeat("k", headgate.MaxKeyBytes+1)).StatusCode; got != 400 {
		t.Errorf("a key that is too long: got %d, want 400", got)
	}
	held := by(store, headgate.InFlight(1))
	for range 3 {
		if got := respond(held, "alice").StatusCode; got != 200 {
			t.Errorf("one after the other under a concurrency limit: got %d, want 200", got)
		}
	}
	for err, want := range map[error]int{
		errors.New("connection refused"): 200, headgate.ErrFull: 200, headgate.ErrClosed: 503, headgate.ErrOverloaded: 503,
	} {
		if got := respond(by(failing{err: err}, headgate.PerHour(1)), "alice").StatusCode; got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}
