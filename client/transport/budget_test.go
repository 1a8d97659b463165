package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

type closing struct {
	io.Reader
	is bool
}

func (c *closing) Close() error {
	c.is = true
	return nil
}

// What is left is counted down by all goroutines together, and none is sent that the server would deny.
func TestGoroutinesShareOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quota = 10
		var mu sync.Mutex
		var denied, served int
		window, used := time.Now(), 0
		transport := newTransport(t, Options{MaxWait: time.Hour, Base: far(func(*http.Request) (*http.Response, error) {
			time.Sleep(20 * time.Millisecond) // on its way
			mu.Lock()
			if now := time.Now().Truncate(time.Minute); now != window {
				window, used = now, 0
			}
			t := int(time.Until(window.Add(time.Minute)).Seconds()) + 1
			used++
			remaining := max(quota-used, 0)
			status := 200
			if used > quota {
				denied++
				status = 429
			} else {
				served++
			}
			mu.Unlock()
			time.Sleep(30 * time.Millisecond) // and back
			return answered(status, "RateLimit", fmt.Sprintf(`"m";r=%d;t=%d`, remaining, t), "RateLimit-Policy", fmt.Sprintf(`"m";q=%d;w=60`, quota)), nil
		})})
		if _, err := get(t, transport, "http://a/"); err != nil { // the first tells of the quota
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if _, err := get(t, transport, "http://a/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if served != 51 || denied != 0 {
			t.Errorf("%d were served and %d denied, want 51 and none", served, denied)
		}
	})
}

// After a pause one request goes first; the others do not follow before it is served.
func TestAfterAPauseOneGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, denied atomic.Int32
		transport := newTransport(t, Options{MaxWait: time.Hour, Base: far(func(*http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			if calls.Add(1) <= 3 {
				denied.Add(1)
				return answered(429, "Retry-After", "5"), nil
			}
			return answered(200), nil
		})})
		if _, err := get(t, transport, "http://a/"); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		start := time.Now()
		for range 40 {
			group.Go(func() {
				if _, err := get(t, transport, "http://a/"); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if got := denied.Load(); got != 3 {
			t.Errorf("%d were denied, want 3: one after each pause", got)
		}
		if got, want := time.Since(start), 15*time.Second; got < want || got > want+time.Second {
			t.Errorf("took %v, want three pauses of 5s", got)
		}
	})
}

func TestOurOwnLimitComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent int
		store := newMemory(t)
		defer func() { _ = store.Close() }()
		transport := newTransport(t, Options{
			Limiter: store, Limit: headgate.Per(2, 10*time.Second), MaxWait: 6 * time.Second,
			Base: far(func(*http.Request) (*http.Response, error) {
				sent++
				return answered(200), nil
			}),
		})
		start := time.Now()
		for range 3 {
			if _, err := get(t, transport, "http://a/"); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 5*time.Second || sent != 3 {
			t.Errorf("three of 2 in 10s took %v, want 5s", got)
		}
		if _, err := get(t, transport, "http://b/"); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("another host: held until %v, %v", time.Since(start), err)
		}
		transport.options.MaxWait = -1
		_, err := get(t, transport, "http://a/")
		var limited *LimitedError
		if !errors.As(err, &limited) || limited.Server || limited.RetryAfter != 5*time.Second {
			t.Errorf("got %v, want the configured limit for 5s", err)
		}
		if sent != 4 {
			t.Errorf("%d were sent, want 4", sent)
		}
	})
}

// A place under a concurrency limit is held until the response was read.
func TestPlacesOfOurOwnAreHeldUntilTheEndOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemory(t)
		defer func() { _ = store.Close() }()
		transport := newTransport(t, Options{
			Limiter: store, Limit: headgate.InFlight(1), MaxWait: -1,
			Base: far(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/broken" {
					return nil, io.ErrUnexpectedEOF
				}
				response := answered(200)
				response.Body = io.NopCloser(strings.NewReader("text"))
				return response, nil
			}),
		})
		for _, end := range []func(*http.Response) error{
			func(r *http.Response) error { return r.Body.Close() },
			func(r *http.Response) error { _, err := io.Copy(io.Discard, r.Body); return err },
		} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/", nil)
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, transport, "http://a/"); !errors.Is(err, ErrLimited) {
				t.Errorf("while one is being read: got %v, want ErrLimited", err)
			}
			if err := end(response); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if _, err := get(t, transport, "http://a/broken"); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v, want the transport's error", err)
			}
		}
	})
}

func TestMemoryForKeysIsBounded(t *testing.T) {
	transport := newTransport(t, Options{MaxKeys: 100, Base: far(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Host, "hostile") {
			return answered(429, "Retry-After", "3000"), nil
		}
		return answered(200), nil
	})})
	for i := range 10_000 {
		if _, err := get(t, transport, fmt.Sprintf("http://friendly%d/", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		if _, err := get(t, transport, fmt.Sprintf("http://hostile%d/", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(transport.budgets); got > 100 {
		t.Errorf("%d keys are remembered, want at most 100", got)
	}
	transport.options.MaxWait = -1
	if _, err := get(t, transport, "http://hostile0/"); !errors.Is(err, ErrLimited) {
		t.Errorf("a host that said to wait: got %v, want it remembered", err)
	}
}

// Servers that refused once and were never asked again make room for others.
func TestServersThatAreNotAskedAgainAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := newTransport(t, Options{MaxKeys: 10, MaxWait: -1, Base: far(func(*http.Request) (*http.Response, error) {
			return answered(429, "Retry-After", "5"), nil
		})})
		for i := range 10 {
			if _, err := get(t, transport, fmt.Sprintf("http://once%d/", i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5*time.Second + probingTime)
		if _, err := get(t, transport, "http://new/"); err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, transport, "http://new/"); !errors.Is(err, ErrLimited) {
			t.Errorf("a server that said to wait: got %v, want it remembered", err)
		}
	})
}
