package h2

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/responsewriter"
	"golang.org/x/net/http2"
)

func TestResponses(t *testing.T) {
	for name, tt := range map[string]struct {
		method  string
		handler http.HandlerFunc
		want    string // the header, sorted, with the status
		body    string
		trailer string
	}{
		"nothing": {handler: func(http.ResponseWriter, *http.Request) {}, want: ":status=200 content-length=0"},
		"a short body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
		}, want: ":status=200 content-length=5 content-type=text/plain; charset=utf-8", body: "hello"},
		"a known type": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			_, _ = io.WriteString(w, "hello")
		}, want: ":status=200 content-length=5 content-type=a/b", body: "hello"},
		"no type": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "hello")
		}, want: ":status=200 content-length=5", body: "hello"},
		"a flushed body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hel")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "lo")
		}, want: ":status=200 content-type=text/plain; charset=utf-8", body: "hello"},
		"a stated length": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "40000")
			w.Header().Set("Content-Type", "a/b")
			_, _ = io.WriteString(w, strings.Repeat("x", 40_000))
			if _, err := io.WriteString(w, "y"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("got %v, want %v", err, http.ErrContentLength)
			}
		}, want: ":status=200 content-length=40000 content-type=a/b", body: strings.Repeat("x", 40_000)},
		"a long body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			for range 30 {
				_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			}
		}, want: ":status=200 content-type=text/plain; charset=utf-8", body: strings.Repeat("x", 30_000)},
		"one long write": {handler: func(w http.ResponseWriter, _ *http.Request) {
			if n, err := io.WriteString(w, strings.Repeat("x", 60_000)); n != 60_000 || err != nil {
				t.Errorf("got %d, %v, want 60000", n, err)
			}
		}, want: ":status=200 content-type=text/plain; charset=utf-8", body: strings.Repeat("x", 60_000)},
		"HEAD": {method: "HEAD", handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
		}, want: ":status=200 content-length=5 content-type=text/plain; charset=utf-8"},
		"HEAD with a length": {method: "HEAD", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
		}, want: ":status=200 content-length=1000"},
		"204": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("got %v, want %v", err, http.ErrBodyNotAllowed)
			}
		}, want: ":status=204"},
		"304": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"a"`)
			w.WriteHeader(http.StatusNotModified)
		}, want: `:status=304 etag="a"`},
		"fields of a connection": {handler: func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Proxy-Connection"} {
				w.Header().Set(name, "x")
			}
			w.Header()["Bad Name"] = []string{"x"}
			w.Header()["X-Break"] = []string{"a\r\nb"}
			w.WriteHeader(418)
		}, want: ":status=418 content-length=0 x-break=a  b"},
		"lines": {handler: func(w http.ResponseWriter, _ *http.Request) {
			lines := w.(responsewriter.ResponseWriter)
			buf := lines.HeaderLines()
			lines.SetHeaderLines(append(buf, "X-Limit: 5\r\nRetry-After: 1\r\n"...), []string{"X-Limit"})
			if !lines.TryAddHeaderLine("Content-Type", "a/b") || !lines.TryAddHeaderLine("X-Limit", "7") ||
				!lines.TryAddHeaderLine("Content-Length", "2") || lines.TryAddHeaderLine("Connection", "close") {
				t.Error("lines were not taken as they should")
			}
			w.Header().Set("X-Limit", "9")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, "no")
		}, want: ":status=429 content-length=2 content-type=a/b retry-after=1 x-limit=5", body: "no"},
		"announced trailers": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "hello")
			w.Header().Set("X-Sum", "1")
		}, want: ":status=200 content-type=text/plain; charset=utf-8 trailer=X-Sum", body: "hello", trailer: "x-sum=1"},
		"late trailers": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "5")
				_, _ = io.WriteString(w, "hello")
				_ = http.NewResponseController(w).Flush()
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
			},
			want: ":status=200 content-length=5 content-type=text/plain; charset=utf-8",
			body: "hello", trailer: "grpc-status=0",
		},
		"only trailers": {handler: func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "12")
		}, want: ":status=200", trailer: "grpc-status=12"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, newServer(t, tt.handler))
			fields := getFields()
			if tt.method != "" {
				fields[1] = tt.method
			}
			c.headers(1, true, fields...)
			a := c.receive(1)
			if a.header["date"] == "" {
				t.Error("there is no date")
			}
			delete(a.header, "date")
			if got := sortedFields(a.header); got != tt.want || a.body != tt.body || sortedFields(a.trailer) != tt.trailer {
				t.Errorf("got %s, %d bytes, %s; want %s, %d bytes, %s",
					got, len(a.body), sortedFields(a.trailer), tt.want, len(tt.body), tt.trailer)
			}
			c.alive()
		})
	}
}

func TestInterimResponses(t *testing.T) {
	c := connect(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</b>")
	}))
	c.headers(1, true, getFields()...)
	f, ok := c.read().(*http2.MetaHeadersFrame)
	if !ok || f.PseudoValue("status") != "103" || f.StreamEnded() || len(f.RegularFields()) != 1 {
		t.Fatalf("got %v, want 103 with one field", f)
	}
	if a := c.ok(1); a.header["link"] != "</b>" {
		t.Errorf("got %v, want the second link", a.header)
	}
}

func TestFailedHandlersResetStream(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a panic":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"another panic":  func(http.ResponseWriter, *http.Request) { panic("x") },
		"a wrong status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) },
		"a short body":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5") },
		"a panic in body": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "x")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, h)
			s.Logf = func(string, ...any) {}
			c := connect(t, s)
			for i := range uint32(3) {
				c.headers(2*i+1, true, getFields()...)
				c.reset(2*i+1, http2.ErrCodeInternal)
			}
			c.alive()
			if busy, _ := c.states.get(); busy {
				t.Error("the connection is busy, want it idle")
			}
		})
	}
}

// The client's windows determine how much it receives. When they are too small for too long, the stream is reset.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			_, err := io.WriteString(w, strings.Repeat("x", 40_000))
			failed <- err
		})
		s.WriteTimeout = time.Minute
		c := connect(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		c.headers(1, true, getFields()...)
		c.read() // HEADERS
		want := func(n int) {
			t.Helper()
			if f, ok := c.read().(*http2.DataFrame); !ok || len(f.Data()) != n {
				t.Fatalf("got %v, want %d bytes", f, n)
			}
		}
		want(10)
		time.Sleep(30 * time.Second)
		c.must(c.framer.WriteWindowUpdate(1, 5))
		want(5)
		c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 17}))
		c.skip[http2.FrameSettings] = true
		want(7)
		began := time.Now()
		c.reset(1, http2.ErrCodeInternal)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v more, want 30s: a minute for the write", took)
		}
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want a timeout", err)
		}
		c.alive()
	})
}

// The window of the connection is shared.
func TestConnectionWindow(t *testing.T) {
	c := connect(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 50_000))
	}), http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	c.headers(1, true, getFields()...)
	c.headers(3, true, getFields()...)
	got, ended := 0, 0
	for ended < 2 {
		f, ok := c.read().(*http2.DataFrame)
		if !ok {
			continue
		}
		if got += len(f.Data()); got == firstWindow {
			c.must(c.framer.WriteWindowUpdate(0, 50_000))
		}
		if f.StreamEnded() {
			ended++
		}
	}
	if got != 100_000 {
		t.Errorf("got %d bytes, want 100000", got)
	}
}

func TestClientsThatDoNotReadEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 50_000))
		})
		s.WriteTimeout = time.Minute
		c := connect(t, s)
		began := time.Now()
		c.headers(1, true, getFields()...)
		<-c.served
		if took := time.Since(began).Round(time.Millisecond); took != time.Minute {
			t.Errorf("it took %v, want 1m", took)
		}
	})
}

func TestResetsEndTheContext(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan error)
	c := connect(t, newServer(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		_, err := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "x")
		ended <- errors.Join(http.NewResponseController(w).Flush(), err)
	}))
	c.headers(1, false, postFields()...)
	<-arrived
	c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	if err := <-ended; !errors.Is(err, errReset) {
		t.Errorf("got %v, want %v", err, errReset)
	}
	c.alive()
}

func TestClosedConnectionEndsContext(t *testing.T) {
	arrived := make(chan struct{})
	c := connect(t, newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	c.headers(1, true, getFields()...)
	<-arrived
	_ = c.nc.Close()
	<-c.served
}

// A countingConn counts writes.
type countingConn struct {
	net.Conn
	mu     sync.Mutex
	writes int
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *countingConn) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// Responses that are ready while another one is being sent are sent in one write.
func TestResponsesShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			_, _ = io.WriteString(w, "hello")
		})
		near, far := net.Pipe()
		counted := &countingConn{Conn: far}
		c := newClient(t, near)
		c.conn = s.NewConn(Link{Conn: counted, States: c.states})
		go func() {
			defer close(c.served)
			c.conn.Serve()
		}()
		c.greet()
		for id := uint32(1); id < 20; id += 2 {
			c.headers(id, true, getFields()...)
		}
		synctest.Wait()
		before := counted.count()
		release <- struct{}{}
		synctest.Wait() // the first response is being sent, until the client reads it
		close(release)
		synctest.Wait()
		for ended := 0; ended < 10; {
			if f, ok := c.read().(*http2.DataFrame); ok && f.StreamEnded() {
				ended++
			}
		}
		if got := counted.count() - before; got != 2 {
			t.Errorf("10 responses took %d writes, want 2", got)
		}
		_ = near.Close()
		<-c.served
	})
}

// Clients that forbid the dynamic table get the size update that they require.
func TestSizeOfTheDynamicTableIsAnnounced(t *testing.T) {
	c := connect(t, newServer(t, echo), http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	c.framer.ReadMetaHeaders = nil
	for id := uint32(1); id <= 3; id += 2 {
		c.headers(id, true, getFields()...)
		f, ok := c.read().(*http2.HeadersFrame)
		if !ok {
			t.Fatalf("got %v, want HEADERS", f)
		}
		if got := f.HeaderBlockFragment()[0] == sizeUpdate; got != (id == 1) {
			t.Errorf("stream %d: the size is announced: %t, want only with the first", id, got)
		}
	}
}
