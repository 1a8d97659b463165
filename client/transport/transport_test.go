package transport

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A far is a server that is a function.
type far func(*http.Request) (*http.Response, error)

func (f far) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered(status int, fields ...string) *http.Response {
	h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

func newTransport(t testing.TB, o Options) *Transport {
	t.Helper()
	transport, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func get(t testing.TB, transport http.RoundTripper, url string) (status int, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

func newMemory(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// What a server says holds the requests that follow for as long as it says, whichever way it says so.
func TestAnswersHoldTheRequestsThatFollow(t *testing.T) {
	epoch := func(after time.Duration) string {
		return strconv.FormatInt(time.Now().Add(after).Unix(), 10)
	}
	for name, tt := range map[string]struct {
		status int
		fields func() []string
		want   time.Duration
	}{
		"Retry-After in seconds": {429, func() []string { return []string{"Retry-After", "7"} }, 7 * time.Second},
		"Retry-After of a 503":   {503, func() []string { return []string{"Retry-After", "7"} }, 7 * time.Second},
		"Retry-After as a date": {429, func() []string {
			return []string{"Retry-After", time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)}
		}, 7 * time.Second},
		"429 without a word":           {429, func() []string { return nil }, defaultPause},
		"503 without a word":           {503, func() []string { return nil }, 0},
		"Retry-After of a 200":         {200, func() []string { return []string{"Retry-After", "7"} }, 0},
		"draft-11, nothing left":       {200, func() []string { return []string{"RateLimit", `"a";r=0;t=9`} }, 9 * time.Second},
		"draft-11, some left":          {200, func() []string { return []string{"RateLimit", `"a";r=1;t=9`} }, 0},
		"draft-11, the tightest binds": {200, func() []string { return []string{"RateLimit", `"a";r=5;t=3, "b";r=0;t=9`} }, 9 * time.Second},
		"draft-11, w in place of t": {200, func() []string {
			return []string{"RateLimit", `"a";r=0`, "RateLimit-Policy", `"a";q=10;w=12`}
		}, 12 * time.Second},
		"draft-11, on two lines": {200, func() []string { return []string{"RateLimit", `"a";r=5;t=3`, "RateLimit", `"b";r=0;t=9`} }, 9 * time.Second},
		"draft-7, nothing left":  {200, func() []string { return []string{"RateLimit", `limit=10, remaining=0, reset=7`} }, 7 * time.Second},
		"draft-7, some left":     {200, func() []string { return []string{"RateLimit", `limit=10, remaining=3, reset=7`} }, 0},
		"draft-7, no reset":      {200, func() []string { return []string{"RateLimit", `limit=10, remaining=0`} }, 0},
		"draft-7, no numbers":    {200, func() []string { return []string{"RateLimit", `remaining=(0), reset="7"`} }, 0},
		"X-RateLimit, seconds":   {200, func() []string { return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "11"} }, 11 * time.Second},
		"X-RateLimit, a moment": {200, func() []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", epoch(11 * time.Second)}
		}, 11 * time.Second},
		"X-RateLimit, milliseconds": {200, func() []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", epoch(11*time.Second) + "000"}
		}, 11 * time.Second},
		"X-RateLimit, a fraction": {200, func() []string { return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1.5"} }, 1500 * time.Millisecond},
		"RateLimit-Remaining":     {200, func() []string { return []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "4"} }, 4 * time.Second},
		"an endless Retry-After":  {429, func() []string { return []string{"Retry-After", strings.Repeat("9", 40)} }, DefaultMaxPause},
		"an endless t":            {200, func() []string { return []string{"RateLimit", `"a";r=0;t=999999999999999`} }, DefaultMaxPause},
		"an endless reset": {200, func() []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9223372036854775807"}
		}, DefaultMaxPause},
		"a reset in the past":      {200, func() []string { return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1000000001"} }, 0},
		"a field that is broken":   {200, func() []string { return []string{"RateLimit", `"a";r=0;t=9;`} }, 0},
		"a remainder below zero":   {200, func() []string { return []string{"RateLimit", `"a";r=-5;t=9`} }, 0},
		"a number that is text":    {200, func() []string { return []string{"RateLimit", `"a";r="0";t=9`} }, 0},
		"a giant field":            {200, func() []string { return []string{"RateLimit", strings.Repeat(`"a";r=0;t=9,`, 1000) + `"a";r=0;t=9`} }, 0},
		"not a number":             {200, func() []string { return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "NaN"} }, 0},
		"an infinite reset":        {200, func() []string { return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "Inf"} }, 0},
		"Retry-After that is none": {503, func() []string { return []string{"Retry-After", "soon"} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(25 * 365 * 24 * time.Hour) // from 2000 to 2025, when numbers of seconds are moments
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
				calls := 0
				transport := newTransport(t, Options{MaxWait: 2 * DefaultMaxPause, Base: far(func(*http.Request) (*http.Response, error) {
					if calls++; calls == 1 {
						return answered(tt.status, tt.fields()...), nil
					}
					return answered(200), nil
				})})
				if got, err := get(t, transport, "http://api.example.com/"); err != nil || got != tt.status {
					t.Fatalf("got %d, %v; want %d as it is", got, err, tt.status)
				}
				start := time.Now()
				if _, err := get(t, transport, "http://other.example.com/"); err != nil || time.Since(start) != 0 {
					t.Errorf("another host was held for %v, %v", time.Since(start), err)
				}
				if _, err := get(t, transport, "http://API.example.com/x"); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tt.want {
					t.Errorf("held for %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestWhoMayNotWaitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := newTransport(t, Options{MaxWait: 5 * time.Second, Base: far(func(*http.Request) (*http.Response, error) {
			return answered(429, "Retry-After", "7"), nil
		})})
		if _, err := get(t, transport, "http://a/"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := get(t, transport, "http://a/")
		var limited *LimitedError
		if !errors.As(err, &limited) || !errors.Is(err, ErrLimited) || !limited.Server || limited.RetryAfter != 7*time.Second || time.Since(start) != 0 {
			t.Fatalf("after %v: got %v, want at once that it takes 7s", time.Since(start), err)
		}
		time.Sleep(3 * time.Second)
		if got, err := get(t, transport, "http://a/"); err != nil || got != 429 || time.Since(start) != 7*time.Second {
			t.Errorf("after %v: got %d, %v; want it sent after 7s", time.Since(start), got, err)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://a/", nil)
		if _, err := transport.RoundTrip(r); !errors.Is(err, ErrLimited) {
			t.Errorf("a context that ends before: got %v, want ErrLimited", err)
		}
		closed := &closing{Reader: strings.NewReader("body")}
		r, _ = http.NewRequestWithContext(ctx, http.MethodPost, "http://a/", closed)
		if _, err := transport.RoundTrip(r); !errors.Is(err, ErrLimited) || !closed.is {
			t.Errorf("got %v, body closed %v; want ErrLimited and a closed body", err, closed.is)
		}
	})
}

// Requests that give up before their turn in a leaky-bucket return all of their units.
func TestTransportReturnsTheUnitsOfThoseWhoGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, limit := newMemory(t), headgate.MustParseLimit("10/s leaky-bucket burst 20")
		transport := newTransport(t, Options{
			Limiter: store, Limit: limit, MaxWait: 5 * time.Second, Key: func(*http.Request) string { return "backend" },
			Base: far(func(*http.Request) (*http.Response, error) { return answered(200), nil }),
		})
		var all sync.WaitGroup
		for i := range 15 { // their turns are at 0, 100 ms, … 1.4 s; those from 600 ms on give up at 500 ms
			ctx, cancel := context.WithCancel(t.Context())
			if i >= 6 {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			all.Go(func() {
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://a/", nil)
				_, err := transport.RoundTrip(r)
				if gaveUp := errors.Is(err, context.Canceled); gaveUp != (i >= 6) || err != nil && !gaveUp {
					t.Errorf("request %d: got %v", i, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		d, err := store.Take(t.Context(), headgate.Check{Key: "backend", Limit: limit, Cost: 1})
		if want := 100 * time.Millisecond; err != nil || d.Delay != want {
			t.Errorf("the next is held for %v, %v; want %v", d.Delay, err, want)
		}
	})
}

// A server whose answers take longer than its windows last is kept to all the same, for any number of answers.
func TestAnswersThatComeAfterTheirWindowAreLearnedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remaining := "7"
		transport := newTransport(t, Options{MaxWait: -1, Base: far(func(*http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return answered(200, "X-RateLimit-Limit", "9", "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", "1"), nil
		})})
		for range 3 * maxWindows {
			if _, err := get(t, transport, "http://slow/"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		remaining = "0"
		if _, err := get(t, transport, "http://slow/"); err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, transport, "http://slow/"); !errors.Is(err, ErrLimited) {
			t.Errorf("nothing is left: got %v, want that it waits", err)
		}
		if got := len(transport.budgets["http://slow"].windows); got != 1 {
			t.Errorf("%d windows are remembered of one", got)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	store := newMemory(t)
	for name, o := range map[string]Options{
		"a limiter without a limit": {Limiter: store},
		"a limit without a limiter": {Limit: headgate.PerSecond(1)},
		"a limit that is none":      {Limiter: store, Limit: headgate.Limit{Count: -1, Period: time.Second}},
		"a short pause":             {MaxPause: time.Millisecond},
		"no keys":                   {MaxKeys: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// The server is one of ours, with all the fields it says; the clients are many goroutines. Not one request is denied.
func TestTransportKeepsToWhatOurOwnServerSays(t *testing.T) {
	set, err := match.Compile([]rules.Rule{{ID: "all", Limits: []rules.Limit{{Limit: headgate.PerSecond(20)}}}})
	if err != nil {
		t.Fatal(err)
	}
	decide, err := engine.New(engine.Config{Store: newMemory(t), Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := httplimit.New(httplimit.Config{Engine: decide})
	if err != nil {
		t.Fatal(err)
	}
	var served, denied atomic.Int32
	server := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { served.Add(1) })))
	defer server.Close()
	transport := newTransport(t, Options{Base: server.Client().Transport})
	client := &http.Client{Transport: transport}
	if response, err := client.Get(server.URL); err != nil { // the first tells of the quota
		t.Fatal(err)
	} else if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				response, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
				if response.StatusCode == http.StatusTooManyRequests {
					denied.Add(1)
				}
			}
		})
	}
	group.Wait()
	if served.Load() != 41 || denied.Load() != 0 {
		t.Errorf("%d were served and %d denied, want 41 and none", served.Load(), denied.Load())
	}
}

func FuzzWhatServersSay(f *testing.F) {
	f.Add(429, "7", `"a";r=0;t=9`, `"a";q=10;w=60`, "0", "1700000000")
	f.Add(200, "Sun, 06 Nov 1994 08:49:37 GMT", `"a";r=1;t=0, "b";r=5`, `"b";q=1`, "5, 10;w=1", "1.5")
	f.Add(503, "99999999999999999999", `"a";r=9999999999;t=999999999999999`, "", "-1", "1e300")
	transport, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, after, limit, policy, remaining, reset string) {
		now := time.Now()
		s := transport.readLimits(&http.Response{StatusCode: status, Header: http.Header{
			"Retry-After": {after}, "Ratelimit": {limit}, "Ratelimit-Policy": {policy},
			"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset},
		}}, now)
		if s.pause < 0 || s.pause > DefaultMaxPause || len(s.windows) > maxWindows {
			t.Fatalf("got a pause of %v and %d windows", s.pause, len(s.windows))
		}
		for _, w := range s.windows {
			if w.remaining < 0 || w.quota < 0 || w.reset.Before(now) || w.reset.After(now.Add(DefaultMaxPause)) || w.span > DefaultMaxPause {
				t.Fatalf("got %+v", w)
			}
		}
		var b budget
		b.changed = make(chan struct{})
		b.update(now, now, s)
		if wait := b.waitTime(now); wait > DefaultMaxPause {
			t.Fatalf("got a wait of %v", wait)
		}
	})
}
