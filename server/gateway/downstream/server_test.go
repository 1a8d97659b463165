package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestUnusualRequestsGoToNetHTTPInOrder(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
	})
	for name, odd := range map[string]string{
		"chunks":   lines("POST /odd HTTP/1.1", "Host: x", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n",
		"absolute": get("http://example.com/odd"),
		"folded":   get("/odd", "A: b", " c"),
		"bare LF":  "GET /odd HTTP/1.1\nHost: x\n\n",
		"long":     get("/odd", "A: "+strings.Repeat("a", maxHead)),
		"options":  lines("OPTIONS * HTTP/1.1", "Host: x"),
		"named":    get("/odd", "Connection: X-Other"),
	} {
		t.Run(name, func(t *testing.T) {
			c, r := dial(t, s.addr)
			// All at once, so that bytes of all are read together.
			send(t, c, get("/first")+lines("POST /second HTTP/1.1", "Host: x", "Content-Length: 3")+"abc"+odd+get("/last"))
			for i, want := range []string{"/first", "/second", "", "/last"} {
				a := receive(t, r, "GET")
				if a.status != 200 || want != "" && !strings.Contains(a.body, want) {
					t.Fatalf("response %d: %d %q, want 200 and %q", i, a.status, a.body, want)
				}
				if rest := a.header.Get("X-Rest") != ""; rest != (i >= 2) {
					t.Errorf("response %d by net/http: %t", i, rest)
				}
			}
		})
	}
	await.True(t, "no connection is ours", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
	if got := s.ended.get(); got != 0 {
		t.Errorf("%d connections have ended here, want none: they were handed over", got)
	}
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	for _, text := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		get("/", "Host: other"),
		get("/", "Content-Length: 1", "Content-Length: 2"),
		get("/", "Content-Length: 1x"),
		get("/", "A\x00: b"),
		get("/", "A: \x00"),
		get("/ "),
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"\x16\x03\x01\x02" + strings.Repeat("x", 100) + "\r\n\r\n",
		lines("POST / HTTP/1.1", "Host: x", "Content-Length: 3", "Transfer-Encoding: gzip, chunked"),
	} {
		c, r := dial(t, s.addr)
		send(t, c, text)
		a := receive(t, r, "GET") // within the time that the connection has
		if a.status < 400 || !a.close {
			t.Errorf("%q: %d %q, want it refused and the connection closed", text, a.status, a.body)
		}
	}
}

func TestHTTP2AndTLS(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+strconv.FormatBool(r.TLS != nil)+" "+r.RemoteAddr)
	}
	plain, secure := start(t, h), start(t, h, withTLS(t))
	for _, c := range []struct {
		name, url, want string
		http1, http2    bool
	}{
		{name: "HTTP/1.1", url: "http://" + plain.addr, want: "HTTP/1.1 false 127.", http1: true},
		{name: "h2c", url: "http://" + plain.addr, want: "HTTP/2.0 false 127.", http2: true},
		{name: "HTTP/1.1 over TLS", url: "https://" + secure.addr, want: "HTTP/1.1 true 127.", http1: true},
		{name: "HTTP/2 over TLS", url: "https://" + secure.addr, want: "HTTP/2.0 true 127.", http2: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := new(http.Protocols)
			p.SetHTTP1(c.http1)
			p.SetHTTP2(c.http2)
			p.SetUnencryptedHTTP2(c.http2)
			tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer tr.CloseIdleConnections()
			client := &http.Client{Transport: tr, Timeout: patience}
			for range 3 {
				res, err := client.Get(c.url)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || !strings.HasPrefix(string(body), c.want) {
					t.Errorf("%q, %v, want %q", body, err, c.want)
				}
				if rest := res.Header.Get("X-Rest"); rest != "" {
					t.Errorf("net/http has responded: %s", rest)
				}
			}
		})
	}
	t.Run("odd over TLS", func(t *testing.T) {
		c, err := tls.Dial("tcp", secure.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patience))
		send(t, c, get("/")+get("http://example.com/"))
		r := newReader(c)
		for i, rest := range []bool{false, true} {
			a := receive(t, r, "GET")
			if a.status != 200 || !strings.HasPrefix(a.body, "HTTP/1.1 true") || (a.header.Get("X-Rest") != "") != rest {
				t.Errorf("response %d: %+v", i, a)
			}
		}
	})
	t.Run("no TLS where it is wanted", func(t *testing.T) {
		c, r := dial(t, secure.addr)
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.status != 400 {
			t.Errorf("status %d, want 400", a.status)
		}
		await.True(t, "the log has it", func() bool { return strings.Contains(secure.log.String(), "TLS handshake error") })
	})
}

func TestLongHeadersAreReadInPiecesAndNotKept(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range len(r.Header) {
			w.Header()["X-"+strconv.Itoa(i)] = []string{"a"}
		}
		_, _ = io.WriteString(w, strconv.Itoa(len(r.Header))+r.Header.Get("X-999"))
	})
	var many []string
	for i := range 1000 {
		many = append(many, "X-"+strconv.Itoa(i)+": v"+strconv.Itoa(i))
	}
	text := get("/", many...)
	if len(text) <= 2*keptHead || len(text) > maxHead {
		t.Fatalf("%d bytes", len(text))
	}
	for _, piece := range []int{len(text), keptHead, keptHead + 1, 1000, 3333} {
		c, r := dial(t, s.addr)
		for range 2 {
			for rest := text; rest != ""; {
				n := min(piece, len(rest))
				send(t, c, rest[:n])
				rest = rest[n:]
			}
			a := receive(t, r, "GET")
			if a.body != "1000v999" || a.header.Get("X-Rest") != "" || len(a.header) < 1000 {
				t.Fatalf("in pieces of %d: %q", piece, a.body)
			}
		}
		send(t, c, get("/"))
		if a := receive(t, r, "GET"); a.body != "0" {
			t.Errorf("after that %q, want none", a.body)
		}
		_ = c.Close()
	}
	for e, _ := s.exchanges.Get().(*exchange); e != nil; e, _ = s.exchanges.Get().(*exchange) {
		if len(e.text) > keptHead || cap(e.values) > manyFields+8 || len(e.response.header) > manyFields || cap(e.response.out) > 2*outBuffer {
			t.Errorf("kept: a head of %d bytes, %d values, %d headers, %d bytes of a response",
				len(e.text), cap(e.values), len(e.response.header), cap(e.response.out))
		}
	}
}

func TestPanicClosesConnection(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "not all")
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("as it happens")
	})
	for _, path := range []string{"/abort", "/panic"} {
		c, r := dial(t, s.addr)
		send(t, c, get(path))
		if res, err := http.ReadResponse(r, nil); err == nil {
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%s: the response %q looks complete", path, body)
			}
		}
		await.True(t, "the connection is over", func() bool { return s.ended.get() > 0 })
	}
	await.True(t, "the log has it", func() bool { return strings.Contains(s.log.String(), "as it happens") })
	if strings.Contains(s.log.String(), "abort") {
		t.Errorf("log: %s", s.log)
	}
}

func TestHandlerCanHijack(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.Context().Done() // it is being watched
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		word, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(c, "said "+word)
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("Write: %v", err)
		}
	})
	for _, later := range []bool{false, true} {
		c, r := dial(t, s.addr)
		if later {
			send(t, c, get("/"))
			send(t, c, "hello\n")
		} else {
			send(t, c, get("/")+"hello\n")
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "said hello\n" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	await.True(t, "both are over", func() bool { return s.ended.get() == 2 })
}

func TestShutdownFinishesRequests(t *testing.T) {
	arrived, goOn := make(chan struct{}, 2), make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			wait(t, "the rest", goOn)
		}
		_, _ = io.WriteString(w, "done")
	})
	idle, idleReader := dial(t, s.addr)
	send(t, idle, get("/"))
	receive(t, idleReader, "GET")
	busy, busyReader := dial(t, s.addr)
	send(t, busy, get("/slow"))
	odd, oddReader := dial(t, s.addr)
	send(t, odd, get("http://example.com/slow"))
	<-arrived
	<-arrived
	done := shutdown(t, s.Server)
	wantEnd(t, idleReader)
	select {
	case err := <-done:
		t.Fatalf("Shutdown has returned %v before all is done", err)
	default:
	}
	close(goOn)
	for _, r := range []clientResponse{receive(t, busyReader, "GET"), receive(t, oddReader, "GET")} {
		if r.body != "done" || !r.close {
			t.Errorf("got %+v, want it done and closed", r)
		}
	}
	if err := wait(t, "Shutdown", done); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("it still accepts connections")
	}
}

func TestShutdownTimeout(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
	})
	c, _ := dial(t, s.addr)
	send(t, c, get("/"))
	wait(t, "the request", arrived)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want %v", err, context.Canceled)
	}
	_ = s.Close()
	wait(t, "the handler hears of it", ended)
}

func TestHeaderLinesAreSentUnchanged(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		lw := w.(ResponseWriter)
		if r.URL.Path == "/lines" {
			buf := lw.HeaderLines()
			lw.SetHeaderLines(append(buf, "X-Limit: 1\r\nContent-Type: a/b\r\n"...), []string{"X-Limit", "Content-Length"})
		}
		w.Header().Set("X-Limit", "2")
		w.Header().Set("X-Other", "3")
		w.Header().Set("Content-Length", "1234")
		w.WriteHeader(http.StatusEarlyHints)
		if r.URL.Path != "/lines" {
			w.Header().Del("Content-Length")
		}
		_, _ = io.WriteString(w, "body")
	})
	c, r := dial(t, s.addr)
	for _, want := range []struct{ path, limit, kind string }{{"/lines", "1", "a/b"}, {"/", "2", "text/plain; charset=utf-8"}} {
		send(t, c, get(want.path))
		if a := receive(t, r, "GET"); a.status != 103 || a.header.Get("X-Limit") != "2" {
			t.Errorf("interim response %+v", a)
		}
		a := receive(t, r, "GET")
		if !slices.Equal(a.header["X-Limit"], []string{want.limit}) || a.header.Get("X-Other") != "3" || a.body != "body" ||
			a.length != 4 || a.header.Get("Content-Type") != want.kind {
			t.Errorf("%s: %+v", want.path, a)
		}
	}
}
