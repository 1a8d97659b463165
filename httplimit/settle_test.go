package httplimit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/rules"
)

// byTokens counts the tokens that a response header reports.
var byTokens = []rules.Rule{{
	ID: "tokens", Key: byIP, Limits: enginetest.Limits("1000/h"),
	Cost: rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 100},
}}

// left returns what is left of the tokens, told by a request that costs nothing in the end.
func left(t *testing.T, url string) string {
	t.Helper()
	_, header := get(t, url+"/free")
	return header.Get("X-RateLimit-Remaining")
}

func TestCostThatTheResponseSaysIsSettled(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		left    string // after it, less the estimate of who looks
	}{
		{"more than the estimate", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "250")
		}, "650"},
		{"less than the estimate", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "5")
			_, _ = io.WriteString(w, "text")
		}, "895"},
		{"nothing is said", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "text")
		}, "800"},
		{"no number is said", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "many")
		}, "800"},
		{"in a trailer that was announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Tokens-Used")
			_, _ = io.WriteString(w, "text")
			w.Header().Set("X-Tokens-Used", "250")
		}, "650"},
		{"in a trailer that was not", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("text", 1000))
			w.Header().Set(http.TrailerPrefix+"X-Tokens-Used", "250")
		}, "650"},
		{"in a trailer that corrects the header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "1")
			_, _ = io.WriteString(w, strings.Repeat("text", 1000))
			w.Header().Set(http.TrailerPrefix+"X-Tokens-Used", "250")
		}, "650"},
		{"said before a panic", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "250")
			panic(http.ErrAbortHandler)
		}, "650"},
		{"an error of the service", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Tokens-Used", "0")
			w.WriteHeader(http.StatusInternalServerError)
		}, "900"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, byTokens, httplimit.Config{})
			mux := http.NewServeMux()
			mux.Handle("/", tt.handler)
			mux.HandleFunc("/free", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Tokens-Used", "0") })
			url := serve(t, g.limit(mux))
			resp, err := http.Get(url)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			await.Equal(t, "left of 1000", func() string { return left(t, url) }, tt.left)
		})
	}
}

// A client that hangs up before the response says its cost pays the most that one can cost, by default the limit's
// capacity.
func TestClientThatHangsUpPaysTheMost(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  http.HandlerFunc // when the client is gone
		left string           // of 1000, less the estimate of the one who looks
	}{
		{"it returns", func(http.ResponseWriter, *http.Request) {}, "0"},
		{"it panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "0"},
		{"it says the cost all the same", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"X-Tokens-Used", "250")
		}, "650"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, byTokens, httplimit.Config{})
			mux := http.NewServeMux()
			mux.HandleFunc("/free", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Tokens-Used", "0") })
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "all that the client wants")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				tt.end(w, r)
			})
			url := serve(t, g.limit(mux))
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close() // before its end
			await.Equal(t, "left of 1000", func() string { return left(t, url) }, tt.left)
		})
	}
}

func TestPlaceIsHeldAsLongAsTheHandlerRunsAndReleasedOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  http.HandlerFunc
	}{
		{"it returns", func(http.ResponseWriter, *http.Request) {}},
		{"it panics", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"it takes the connection over", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			shut(conn)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, perIP("1 concurrent"), httplimit.Config{})
			running, finish := make(chan struct{}, 10), make(chan struct{})
			url := serve(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				running <- struct{}{}
				<-finish
				tt.end(w, r)
			})))
			var first sync.WaitGroup
			first.Go(func() {
				// POST, which no client sends again by itself.
				if resp, err := http.Post(url+"/slow", "", http.NoBody); err == nil {
					resp.Body.Close()
				}
			})
			<-running
			if got, _ := get(t, url+"/slow"); got != http.StatusTooManyRequests {
				t.Errorf("a second at the same time: status %d, want 429", got)
			}
			close(finish)
			first.Wait()
			deadline := time.Now().Add(time.Minute)
			for g.store.Gives.Load() == 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			resp, err := http.Post(url+"/slow", "", http.NoBody)
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusTooManyRequests {
					t.Errorf("after the first: status %d, want the place to be free", resp.StatusCode)
				}
			}
			for g.store.Gives.Load() < 2 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if n := g.store.Gives.Load(); n != 2 {
				t.Errorf("places were given back %d times, want once for each of two requests", n)
			}
		})
	}
}

// A request that takes longer than the TTL holds its slot until it ends. The store's clock is set by hand, and renewals
// come by the system's.
func TestSlotIsRenewedWhileTheHandlerRuns(t *testing.T) {
	g := newGate(t, perIP("1 concurrent ttl 30ms"), httplimit.Config{})
	running, finish := make(chan struct{}), make(chan struct{})
	url := serve(t, g.limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			running <- struct{}{}
			<-finish
		}
	})))
	var first sync.WaitGroup
	first.Go(func() {
		if resp, err := http.Post(url, "", http.NoBody); err == nil {
			resp.Body.Close()
		}
	})
	<-running
	for range 5 {
		g.clock.Advance(20 * time.Millisecond)
		renewed := g.store.Renews.Load()
		await.True(t, "the slot renewed", func() bool { return g.store.Renews.Load() > renewed })
		if got, _ := get(t, url); got != http.StatusTooManyRequests {
			t.Errorf("a second after %v: status %d, want 429", g.clock.Now().Sub(limittest.Start), got)
		}
	}
	close(finish)
	first.Wait()
	await.Equal(t, "the status of the next", func() int { got, _ := get(t, url); return got }, http.StatusOK)
}

func TestWhatCannotBeSettledIsReported(t *testing.T) {
	var mu sync.Mutex
	var reported []error
	g := newGate(t, byTokens, httplimit.Config{OnError: func(_ *http.Request, err error) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, err)
	}})
	h := g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Tokens-Used", "250")
		g.store.Unreachable.Store(true)
	}))
	h.ServeHTTP(&scrap{header: http.Header{}}, bareRequest(t))
	if len(reported) != 1 || !errors.Is(reported[0], enginetest.ErrUnreachable) {
		t.Fatalf("reported %v, want one error that is %v", reported, enginetest.ErrUnreachable)
	}
	if got := reported[0].Error(); !strings.HasPrefix(got, "settle GET /some/path: ") {
		t.Errorf("reported %q, want it to say what was being done", got)
	}
}

// A server of WebSockets takes the connection over and talks on it for long.
func TestConnectionThatIsTakenOverPassesBothWays(t *testing.T) {
	g := newGate(t, perIP("10/s", "1 concurrent"), httplimit.Config{})
	url := serve(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer shut(conn)
		_, _ = both.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		_ = both.Flush()
		for {
			line, err := both.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = both.WriteString(strings.ToUpper(line))
			_ = both.Flush()
		}
	})))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", resp.StatusCode)
	}
	for _, word := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(conn, word)
		if got, err := in.ReadString('\n'); err != nil || got != strings.ToUpper(word) {
			t.Fatalf("got %q, %v, want %q", got, err, strings.ToUpper(word))
		}
	}
	if got, _ := get(t, url); got != http.StatusTooManyRequests {
		t.Errorf("while the socket is open: status %d, want 429", got)
	}
	shut(conn)
	await.Equal(t, "places given back", func() string {
		if g.store.Gives.Load() > 0 {
			return "yes"
		}
		return "no"
	}, "yes")
}
