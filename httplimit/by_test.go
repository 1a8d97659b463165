package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
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
	exempt := by(store, headgate.Limit{})
	for range 3 {
		if got := respond(exempt, "alice").StatusCode; got != 200 {
			t.Errorf("the zero Limit: got %d, want 200", got)
		}
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

type userKey struct{}

// Rules use the user that an authentication middleware has put into the context.
func TestAttributesOfTheProgram(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	user := headgate.Attribute{Kind: headgate.AttrUser}
	set, err := match.Compile([]rules.Rule{{
		ID: "per-user", Key: []headgate.Attribute{user}, Limits: []rules.Limit{{Limit: headgate.PerHour(1)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limited, err := httplimit.New(httplimit.Config{Engine: e, Attributes: func(r *http.Request) rules.Attributes {
		name, _ := r.Context().Value(userKey{}).(string)
		return rules.Attributes{user: name}
	}})
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
		})
	}
	h := authenticate(limited(hello))
	for i, want := range []int{200, 429} {
		for _, name := range []string{"alice", "bob"} {
			if got := respond(h, name).StatusCode; got != want {
				t.Errorf("request %d of %s: got %d, want %d", i+1, name, got, want)
			}
		}
	}
}
