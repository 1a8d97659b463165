package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// Nothing of a request may be left in the next one, which may be another client's: a proxy in front sends the requests
// of many clients on one connection.
func TestRequestsShareNoState(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseMultipartForm(1 << 10)
		fmt.Fprintf(w, "%v %v %t %q %q %t", r.Form, r.PostForm, r.MultipartForm != nil, r.PathValue("who"), r.Pattern, r.GetBody != nil || r.Response != nil)
		if r.URL.Path == "/first" {
			r.SetPathValue("who", "alice")
			r.Pattern = "/{who}"
			r.Response = new(http.Response)
			r.Header = nil
		}
	})
	c, r := dial(t, s.addr)
	form := "--x\r\nContent-Disposition: form-data; name=\"secret\"\r\n\r\nalice's\r\n--x--\r\n"
	send(t, c, lines("POST /first?token=alice HTTP/1.1", "Host: example.com", "Content-Type: multipart/form-data; boundary=x", fmt.Sprintf("Content-Length: %d", len(form)))+form)
	if a := receive(t, r, "POST"); !strings.Contains(a.body, "alice's") {
		t.Fatalf("the first has read %q", a.body)
	}
	send(t, c, get("/second?token=bob"))
	want := `map[token:[bob]] map[] false "" "" false`
	if a := receive(t, r, "GET"); a.body != want {
		t.Errorf("the second sees %s, want %s", a.body, want)
	}
}

func TestFilesOfAFormAreRemoved(t *testing.T) {
	names := make(chan string, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(0); err != nil {
			t.Error(err)
			return
		}
		f, err := r.MultipartForm.File["f"][0].Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if file, ok := f.(*os.File); ok {
			names <- file.Name()
		} else {
			names <- ""
		}
	})
	c, r := dial(t, s.addr)
	form := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("a", 11<<20) + "\r\n--x--\r\n"
	send(t, c, lines("POST / HTTP/1.1", "Host: example.com", "Content-Type: multipart/form-data; boundary=x", fmt.Sprintf("Content-Length: %d", len(form)))+form)
	receive(t, r, "POST")
	name := wait(t, "the form is read", names)
	if name == "" {
		t.Fatal("the form has no file on disk")
	}
	await.True(t, "the file is gone", func() bool { _, err := os.Stat(name); return errors.Is(err, os.ErrNotExist) })
}

// httputil.ReverseProxy needs that when a response breaks off.
func TestContextHasServerAndLocalAddr(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
		addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		fmt.Fprint(w, server != nil, addr)
	})
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	if a, want := receive(t, r, "GET"), "true"+s.addr; strings.ReplaceAll(a.body, " ", "") != want {
		t.Errorf("got %q, want %q", a.body, want)
	}
}

// A handler must not leave goroutines behind that use the request. If one does, it must not read what the client sends
// next.
func TestEndedContextDoesNotWatchConnection(t *testing.T) {
	contexts := make(chan context.Context, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case contexts <- r.Context():
		default:
		}
	})
	c, r := dial(t, s.addr)
	for range 20 {
		send(t, c, get("/"))
		receive(t, r, "GET")
		ctx := wait(t, "the request is served", contexts)
		await.True(t, "the connection is idle", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			for c := range s.conns {
				return c.state.Load() == stateIdle
			}
			return false
		})
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			t.Fatal("the context of a request that is over has not ended")
		}
		if ctx.Err() == nil {
			t.Error("it has no error")
		}
	}
}

// A write has a deadline. When it has passed, net/http must not find it on a connection that it gets.
func TestConnectionIsHandedOverWithoutADeadline(t *testing.T) {
	for _, take := range []string{"handed over", "taken over"} {
		t.Run(take, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/take" {
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer func() { _ = conn.Close() }()
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
					return
				}
				_, _ = io.WriteString(w, "hi")
			}, withTLS(t), func(s *Server) { s.WriteTimeout = time.Second })
			c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			r := bufio.NewReader(c)
			send(t, c, get("/"))
			if a := receive(t, r, "GET"); a.body != "hi" {
				t.Fatalf("got %q", a.body)
			}
			time.Sleep(1200 * time.Millisecond) // the deadline passes meanwhile
			if take == "taken over" {
				send(t, c, get("/take"))
			} else {
				send(t, c, get("/", "Trailer: X"))
			}
			if a := receive(t, r, "GET"); a.body != "hi" {
				t.Errorf("got %q, want hi", a.body)
			}
		})
	}
}

// The response to a client that is still sending is not cut off; with TLS, the end is announced by TLS.
func TestUnreadBodyEndsTLSWithCloseNotify(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, withTLS(t))
	raw, _ := dial(t, s.addr)
	heard := &hearing{Conn: raw}
	// In later versions of TLS, alerts cannot be recognized from outside.
	c := tls.Client(heard, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	send(t, c, lines("POST / HTTP/1.1", "Host: x", "Content-Length: 100000000"))
	b, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 429") {
		t.Errorf("got %q, %v, want 429", b, err)
	}
	const alert = 21
	var last byte
	for rest := heard.got; len(rest) >= 5; {
		last = rest[0]
		rest = rest[5+(int(rest[3])<<8|int(rest[4])):]
	}
	if last != alert {
		t.Errorf("the last record is of type %d, want %d", last, alert)
	}
}

// hearing records the bytes that are read.
type hearing struct {
	net.Conn
	got []byte
}

func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.got = append(h.got, p[:n]...)
	return n, err
}

// Only the hijacker reads from a hijacked connection, even if another goroutine waits for the end of the request.
func TestHijackedConnectionIsNotWatched(t *testing.T) {
	var s *site
	s = start(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		r.Context().Done()
		s.mu.Lock()
		for c := range s.conns {
			c.watcher.mu.Lock()
			if c.watcher.done != nil {
				t.Error("another goroutine reads from it")
			}
			c.watcher.mu.Unlock()
		}
		s.mu.Unlock()
		line, err := buffered.ReadString('\n')
		_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(line), line)
		if err != nil {
			t.Error(err)
		}
	})
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, c, "hello\n")
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "hello\n" {
		t.Errorf("got %q, %v, want hello", b, err)
	}
}

func TestWriteAfterItsDeadlineFails(t *testing.T) {
	got := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Now().Add(-time.Second))
		_, _ = io.WriteString(w, "hello")
		got <- control.Flush()
	})
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	if err := wait(t, "the handler is done", got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	wantEnd(t, r)
}

func TestContentTypeIsDetectedFromBodyStart(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<")
		_, _ = io.WriteString(w, "html>"+strings.Repeat("a", 5000))
	}
	for _, addr := range []string{start(t, h).addr, reference(t, h)} {
		c, r := dial(t, addr)
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%q", a.header.Get("Content-Type"))
		}
	}
}

// An HTTP/1 connection does not become an HTTP/2 connection.
func TestHTTP2DoesNotFollowHTTP1(t *testing.T) {
	s := start(t, func(http.ResponseWriter, *http.Request) {})
	c, r := dial(t, s.addr)
	send(t, c, get("/"))
	receive(t, r, "GET")
	send(t, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	b, err := io.ReadAll(r)
	if err != nil && !strings.Contains(err.Error(), "reset") || strings.ContainsRune(string(b), 0) {
		t.Errorf("got %q, %v, want no frames", b, err)
	}
}

// Connections of net/http are still served when the server is shut down.
func TestShutdownWaitsForHandedOverRequests(t *testing.T) {
	for range 50 {
		func() {
			s := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hi") })
			c, r := dial(t, s.addr)
			defer func() { _ = c.Close() }()
			send(t, c, get("/"))
			receive(t, r, "GET")
			is := func(state uint32) func() bool {
				return func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					for c := range s.conns {
						return c.state.Load() == state
					}
					return false
				}
			}
			await.True(t, "the first request is over", is(stateIdle))
			send(t, c, "GET / HTTP/1.1\r\nHost: x\r\nTra")
			await.True(t, "the second has begun", is(stateActive))
			done := shutdown(t, s.Server)
			send(t, c, "iler: X\r\n\r\n")
			if a := receive(t, r, "GET"); a.body != "hi" {
				t.Fatalf("got %q", a.body)
			}
			if err := wait(t, "it is shut down", done); err != nil {
				t.Fatal(err)
			}
		}()
	}
}

// A handler must not leave a goroutine behind that reads the body. If it does, as httputil.ReverseProxy may, that
// goroutine must not read the next request.
func TestBodyReadFailsAfterRequestEnds(t *testing.T) {
	left := make(chan string, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/second" {
			_, _ = io.Copy(w, r.Body)
			return
		}
		body, began := r.Body, make(chan struct{})
		go func() {
			var got []byte
			for b := make([]byte, 3); ; {
				n, err := body.Read(b)
				if got = append(got, b[:n]...); len(got) == n {
					close(began)
				}
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					left <- string(got)
					return
				}
			}
		}()
		<-began
	})
	for range 20 {
		c, r := dial(t, s.addr)
		send(t, c, lines("POST /first HTTP/1.1", "Host: x", "Content-Length: 10")+"a")
		if a := receive(t, r, "POST"); a.status != http.StatusOK {
			t.Fatalf("the first: %d", a.status)
		}
		send(t, c, "bcdefghij"+lines("POST /second HTTP/1.1", "Host: x", "Content-Length: 6")+"secret")
		if a := receive(t, r, "POST"); a.body != "secret" {
			t.Errorf("the second has %q, want secret", a.body)
		}
		const own = "abcdefghij"
		if got := wait(t, "reading has ended", left); got != own[:min(len(got), len(own))] {
			t.Errorf("the goroutine that was left behind has read %q, want part of %q", got, own)
		}
		_ = c.Close()
	}
}

func TestKeptBodyCannotReadNextRequest(t *testing.T) {
	var kept io.Reader
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			kept = r.Body
			return
		}
		b, err := io.ReadAll(kept)
		own, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%q %v %q", b, err, own)
	})
	c, r := dial(t, s.addr)
	send(t, c, lines("POST /first HTTP/1.1", "Host: x", "Content-Length: 3")+"abc")
	receive(t, r, "POST")
	send(t, c, lines("POST /second HTTP/1.1", "Host: x", "Content-Length: 6")+"secret")
	want := fmt.Sprintf("%q %v %q", "", http.ErrBodyReadAfterClose, "secret")
	if a := receive(t, r, "POST"); a.body != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
}
