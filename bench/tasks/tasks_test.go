package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/headgate/headgate/internal/redistest"
)

func TestMiddlewareLimitsByPlan(t *testing.T) {
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	planOf := func(r *http.Request) string { return r.Header.Get("X-Plan") }
	for name, h := range map[string]http.Handler{"Headgate": headgateMiddleware(ok, planOf), "httprate": httprateMiddleware(ok, planOf)} {
		for plan, want := range map[string][]int{"free": {200, 200, 429}, "pro": {200, 200, 200}} {
			var got []int
			for range want {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("X-Plan", plan)
				r.Header.Set("X-User", plan+" user")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				got = append(got, w.Code)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: got %v, want %v", name, plan, got, want)
			}
		}
	}
}

func TestMistypedPlansAreRefused(t *testing.T) {
	served := 0
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
	w := httptest.NewRecorder()
	h := headgateMiddleware(count, func(*http.Request) string { return "Free" })
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable || served != 0 {
		t.Errorf("got %d with %d served, want 503 with none", w.Code, served)
	}
}

func TestGRPCLimitsEachUser(t *testing.T) {
	userOf := func(context.Context) string { return "alice" }
	goLimiter, err := goLimiterGRPC(userOf)
	if err != nil {
		t.Fatal(err)
	}
	ulule, err := ululeGRPC(userOf)
	if err != nil {
		t.Fatal(err)
	}
	want := []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}
	for name, option := range map[string]serverOption{"Headgate": headgateGRPC(userOf), "go-limiter": goLimiter, "ulule/limiter": ulule} {
		if got := call(t, option, len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestWorkersAreSlowedDown(t *testing.T) {
	for name, worker := range map[string]func(context.Context, <-chan func()) error{"Headgate": headgateWorker, "x/time/rate": rateWorker, "uber": uberWorker} {
		jobs := make(chan func(), 4)
		done := 0
		for range cap(jobs) {
			jobs <- func() { done++ }
		}
		close(jobs)
		start := time.Now()
		if err := worker(t.Context(), jobs); err != nil || done != 4 || time.Since(start) < 29*time.Millisecond {
			t.Errorf("%s: %d jobs in %v, %v, want 4 in at least 30ms", name, done, time.Since(start), err)
		}
	}
}

func TestOutboundClientsSend(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	own, err := headgateOutbound()
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]*http.Client{"Headgate": own, "x/time/rate": rateOutbound()} {
		start := time.Now()
		for range 103 {
			response, err := client.Get(server.URL)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			response.Body.Close()
		}
		if took := time.Since(start); took < 29*time.Millisecond {
			t.Errorf("%s: 103 requests at 100/s took %v, want at least 30ms", name, took)
		}
	}
}

func TestRedisIsSharedAndFailsOpen(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	for name, allow := range map[string]func(context.Context, string, string) (bool, error){"Headgate": headgateRedis, "redis_rate": redisRate} {
		var got []bool
		for range 3 {
			allowed, err := allow(t.Context(), server.Addr(), "alice of "+name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, allowed)
		}
		if want := []bool{true, true, false}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if allowed, err := allow(t.Context(), "127.0.0.1:1", "alice"); err != nil || !allowed {
			t.Errorf("%s without Redis: got %t, %v, want allowed", name, allowed, err)
		}
	}
}

func TestThreeLimitsApply(t *testing.T) {
	for name, allow := range map[string]func() bool{
		"Headgate": headgateThree("alice"), "ulule/limiter": ululeThree("alice"), "x/time/rate": rateThree(),
	} {
		got := []bool{allow(), allow(), allow(), allow()}
		if want := []bool{true, true, true, false}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestConcurrencyIsLimited(t *testing.T) {
	for name, do := range map[string]func(context.Context, func() error) error{
		"Headgate": headgateConcurrency("alice"), "a channel": channelConcurrency(), "x/sync": semaphoreConcurrency(),
	} {
		err := do(t.Context(), func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return do(ctx, func() error { return errors.New("two at once") })
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: a second one: got %v, want %v", name, err, context.DeadlineExceeded)
		}
		if err := do(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("%s: after the first: %v", name, err)
		}
	}
}

func TestBudgetIsSettled(t *testing.T) {
	own := headgateSettlement("alice")
	for name, run := range map[string]func(int64, func() (int64, error)) error{
		"Headgate": func(n int64, ask func() (int64, error)) error { return own(t.Context(), n, ask) }, "x/time/rate": rateSettlement(),
	} {
		uses := func(n int64) func() (int64, error) { return func() (int64, error) { return n, nil } }
		var got []bool
		for _, c := range [][2]int64{{900, 100}, {500, 850}, {100, 100}} {
			got = append(got, run(c[0], uses(c[1])) == nil)
		}
		if want := []bool{true, true, false}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestOwnLimitersExemptTheAdmin(t *testing.T) {
	for user, want := range map[string]bool{"admin": true, "alice": false} {
		peer, err := throttledOwnLimiter(user)
		if err != nil {
			t.Fatal(err)
		}
		if own := headgateOwnLimiter(user); own != want || peer != want {
			t.Errorf("%s: got %t with Headgate and %t with throttled, want %t", user, own, peer, want)
		}
	}
}

func TestOwnAlgorithmsCountFromTheFirstRequest(t *testing.T) {
	peer := &throttledWindow{windows: map[string]windowOfKey{}, count: 2, period: time.Hour}
	for name, take := range map[string]func(user string) (bool, time.Duration){
		"Headgate": headgateOwnAlgorithm(2, time.Hour),
		"throttled": func(user string) (bool, time.Duration) {
			limited, result, err := peer.RateLimitCtx(context.Background(), user, 1)
			return err == nil && !limited, result.RetryAfter
		},
	} {
		var got []bool
		var retry time.Duration
		for range 3 {
			allowed, after := take("alice")
			got, retry = append(got, allowed), after
		}
		if fmt.Sprint(got) != "[true true false]" || retry < 59*time.Minute || retry > time.Hour {
			t.Errorf("%s: got %v, retry after %v, want two allowed and an hour", name, got, retry)
		}
	}
}
