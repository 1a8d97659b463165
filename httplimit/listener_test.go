package httplimit_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
)

// talk sends bytes on a connection to a server and returns the answers to so many requests, with their bodies.
func talk(t *testing.T, url, bytes string, methods ...string) (answers []*http.Response, bodies []string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, bytes); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, method := range methods {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("after %d answers: %v", len(answers), err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		answers, bodies = append(answers, resp), append(bodies, string(body))
	}
	return answers, bodies
}

const nobodyPasses = "rules: [{id: nobody, limits: [1/h], cost: {header: X-Cost, max: 9}}]"

// whole tells what is wrong with a rejection that should be complete.
func whole(resp *http.Response, body string) error {
	h := resp.Header
	if resp.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("status %d, want 429", resp.StatusCode)
	}
	for _, name := range []string{
		"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
		"Content-Type", "Cache-Control", "Date", "Content-Length",
	} {
		if n := len(h.Values(name)); n != 1 {
			return fmt.Errorf("%d lines of %s, want one, in %v", n, name, h)
		}
	}
	if resp.Request.Method != http.MethodHead && !json.Valid([]byte(body)) {
		return fmt.Errorf("body %q, want JSON", body)
	}
	return nil
}

func TestReadyAnswersAreWhole(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\n\r\n"
	for _, tt := range []struct {
		name, sent string
		methods    []string
	}{
		{"one", get, []string{"GET"}},
		{"several at once", get + get + get, []string{"GET", "GET", "GET"}},
		{"with a body that is not read", "POST / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\nContent-Length: 5\r\n\r\nhello" + get, []string{"POST", "GET"}},
		{"in chunks", "POST / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + get, []string{"POST", "GET"}},
		{"that waits to send its body", "POST / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", []string{"POST"}},
		{"head", "HEAD / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\n\r\n" + get, []string{"HEAD", "GET"}},
		{"the last", "GET / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\nConnection: close\r\n\r\n", []string{"GET"}},
		{"HTTP/1.0", "GET / HTTP/1.0\r\nX-Cost: 2\r\n\r\n", []string{"GET"}},
		{"HTTP/1.0 that stays", "GET / HTTP/1.0\r\nX-Cost: 2\r\nConnection: keep-alive\r\n\r\n" + get, []string{"GET", "GET"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serveReady(t, newGate(t, nobodyPasses, httplimit.Config{}).limit(ok))
			answers, bodies := talk(t, url, tt.sent, tt.methods...)
			for i, resp := range answers {
				if err := whole(resp, bodies[i]); err != nil {
					t.Errorf("answer %d: %v", i, err)
				}
			}
		})
	}
}

// Our lines are not sorted, as those of net/http are: that tells who has written them.
func TestReadyAnswersAreUsedWhereTheyCanBe(t *testing.T) {
	for _, tt := range []struct {
		name  string
		outer func(http.Handler) http.Handler
		ready bool
	}{
		{"nothing is before it", func(h http.Handler) http.Handler { return h }, true},
		{"a field is set before it", func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-ID", "7")
				h.ServeHTTP(w, r)
			})
		}, true},
		{"a field of ours is set before it", func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				h.ServeHTTP(w, r)
			})
		}, false},
		{"a trailer is announced before it", func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Later")
				h.ServeHTTP(w, r)
			})
		}, false},
		{"a writer is in place that passes everything on", func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(passing{w}, r) })
		}, true},
		{"a writer is in place that does not say so", func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(struct{ http.ResponseWriter }{w}, r) })
		}, false},
		{"another writer is in place", func(h http.Handler) http.Handler {
			return http.TimeoutHandler(h, time.Minute, "")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serveReady(t, tt.outer(newGate(t, nobodyPasses, httplimit.Config{}).limit(ok)))
			raw := exchangeRaw(t, url, "GET / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\nConnection: close\r\n\r\n")
			policy, state := strings.Index(raw, "\r\nRatelimit-Policy: "), strings.Index(raw, "\r\nRatelimit: ")
			if policy < 0 || state < 0 || !strings.Contains(raw, `"violated-policies":["nobody"]`) {
				t.Fatalf("the answer is not whole:\n%s", raw)
			}
			if got := policy < state; got != tt.ready {
				t.Errorf("written by us: %v, want %v:\n%s", got, tt.ready, raw)
			}
		})
	}
}

// passing is a writer that passes everything on.
type passing struct{ http.ResponseWriter }

func (p passing) PassesThrough() http.ResponseWriter { return p.ResponseWriter }

func exchangeRaw(t *testing.T, url, sent string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A handler that writes or flushes after the limit has responded still works, with our lines.
func TestReadyAnswerThatOthersGoOnWithKeepsItsLines(t *testing.T) {
	for name, after := range map[string]func(http.ResponseWriter){
		"writes":  func(w http.ResponseWriter) { _, _ = io.WriteString(w, "more") },
		"flushes": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newGate(t, nobodyPasses, httplimit.Config{}).limit(ok)
			url := serveReady(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r)
				after(w)
			}))
			const get = "GET / HTTP/1.1\r\nHost: a\r\nX-Cost: 2\r\n\r\n"
			answers, _ := talk(t, url, get+get, "GET", "GET")
			for i, resp := range answers {
				if resp.StatusCode != http.StatusTooManyRequests || len(resp.Header.Values("RateLimit")) != 1 {
					t.Errorf("answer %d: status %d, %v, want 429 with RateLimit", i, resp.StatusCode, resp.Header)
				}
			}
		})
	}
}

func TestListenerLeavesEverythingElseAsItIs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(name, large, 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGate(t, nobodyPasses, httplimit.Config{})
	mux := http.NewServeMux()
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) })
	mux.Handle("/limited", g.limit(ok))
	url := serveReady(t, mux)
	for range 3 { // on one connection, rejections in between
		resp, err := http.Get(url + "/file")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(body, large) {
			t.Fatalf("the file arrives as %d bytes, %v, want %d", len(body), err, len(large))
		}
		if resp.Header.Get("RateLimit") != "" {
			t.Errorf("it has lines of another answer: %v", resp.Header)
		}
		get(t, url+"/limited", "X-Cost", "2")
	}
	// A request that is none is answered before the connection is closed, for which net/http needs CloseWrite.
	if raw := exchangeRaw(t, url, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"); !strings.HasPrefix(raw, "HTTP/1.1 400 ") {
		t.Errorf("got %q, want 400", raw)
	}
}

func TestListenerLeavesTLSAndHTTP2AsTheyAre(t *testing.T) {
	for name, serve := range map[string]func(t *testing.T, h http.Handler) (client *http.Client, url string){
		"below TLS": func(t *testing.T, h http.Handler) (*http.Client, string) {
			s := httptest.NewUnstartedServer(h)
			s.EnableHTTP2 = true
			s.Listener = httplimit.Listener(s.Listener)
			s.Config.ConnContext = httplimit.ConnContext
			s.StartTLS()
			t.Cleanup(s.Close)
			return s.Client(), s.URL
		},
		"above TLS": func(t *testing.T, h http.Handler) (*http.Client, string) {
			certified := httptest.NewUnstartedServer(h) // for its certificate, and a client that trusts it
			certified.EnableHTTP2 = true
			certified.StartTLS()
			t.Cleanup(certified.Close)
			config := certified.TLS.Clone()
			config.NextProtos = []string{"h2"}
			under, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &http.Server{Handler: h, ConnContext: httplimit.ConnContext}
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(httplimit.Listener(tls.NewListener(under, config))) })
			t.Cleanup(func() {
				shut(server)
				serving.Wait()
			})
			return certified.Client(), "https://" + under.Addr().String()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, nobodyPasses, httplimit.Config{})
			client, url := serve(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Proto, " ", r.TLS != nil)
			})))
			for i, want := range []string{"200 HTTP/2.0 true", "429 {"} {
				resp, err := client.Get(url)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(resp.StatusCode, " ", string(body)); !strings.HasPrefix(got, want) || resp.ProtoMajor != 2 {
					t.Errorf("request %d: got %s by %s, want %s by HTTP/2", i, got, resp.Proto, want)
				}
			}
		})
	}
}
