package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func TestOversizedBodiesGet413(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.MaxBody = 100
	c.Routes = append(c.Routes, Route{Path: "/large", MaxBody: 1 << 20, Upstreams: c.Routes[0].Upstreams},
		Route{Path: "/any", MaxBody: -1, Upstreams: c.Routes[0].Upstreams})
	g := start(t, c)
	chunked := func(path string, n int) string {
		return lines("POST "+path+" HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") +
			"a\r\n0123456789\r\n" + strings.Repeat("5a\r\n"+strings.Repeat("x", 90)+"\r\n", (n-10)/90) + "0\r\n\r\n"
	}
	declared := func(path string, n int) string {
		return lines("POST "+path+" HTTP/1.1", "Host: a.example", "Content-Length: "+itoa(n)) + strings.Repeat("x", n)
	}
	for name, text := range map[string]string{
		"declared": declared("/", 101), "in chunks": chunked("/", 190), "in many chunks": chunked("/", 10_000),
		"declared and not sent": lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 1000000000"),
		"of another route":      declared("/large", 2<<20),
		"expecting to continue": lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 101", "Expect: 100-continue"),
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := dial(t, g)
			go func() { _, _ = io.WriteString(conn, text) }() // it may be closed before all is sent
			a := receive(t, r, "POST")
			wantProblem(t, a, http.StatusRequestEntityTooLarge)
			if !a.close {
				t.Error("the connection stays open, want it closed")
			}
			if seen := up.taken(); len(seen) > 0 {
				t.Errorf("the upstream saw %+v, want nothing that is complete", seen)
			}
		})
	}
	for name, text := range map[string]string{
		"just as much": declared("/", 100), "just as much in chunks": chunked("/", 100),
		"on a larger route": declared("/large", 1<<20), "on a route without a bound": declared("/any", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			if a := exchangeRaw(t, g, text); a.status != 200 {
				t.Errorf("status %d, want 200", a.status)
			}
			up.one(t)
		})
	}
}

func TestSlowBodiesGet408(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.BodyTimeout = 200 * time.Millisecond
	c.MinBodyRate = 1000
	var book logBook
	c.AccessLog = &AccessLog{Every: 1, Logger: book.logger()}
	g := start(t, c)
	for name, head := range map[string]string{
		"declared":  lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 100000"),
		"small":     lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 10"),
		"in chunks": lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "186a0\r\n",
	} {
		t.Run(name+" that stop", func(t *testing.T) {
			conn, r := dial(t, g)
			send(t, conn, head+"x")
			a := receive(t, r, "POST")
			wantProblem(t, a, http.StatusRequestTimeout)
			if !a.close {
				t.Error("the connection stays open, want it closed")
			}
		})
		if name == "small" {
			continue
		}
		t.Run(name+" that trickle", func(t *testing.T) {
			conn, r := dial(t, g)
			send(t, conn, head)
			go trickle(t.Context(), conn, "x") // 50 bytes a second, and never silent for long
			wantProblem(t, receive(t, r, "POST"), http.StatusRequestTimeout)
		})
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v, want nothing that is complete", seen)
	}
	for _, s := range g.Stats().Upstreams {
		if s.Failed != 0 {
			t.Errorf("%d failures are counted against the upstream, want none: %v", s.Failed, s.LastErr)
		}
	}
	await.True(t, "all are logged", func() bool { return len(book.each(t, "request")) == 5 })
	for _, line := range book.each(t, "request") {
		if line["err"] != errBodyTooSlow.Error() {
			t.Errorf("the log says %q, want %v", line["err"], errBodyTooSlow)
		}
	}
}

// If the upstream responds before it has read the body, the client gets the response without waiting for the rest.
func TestEarlyResponsesArriveWhileBodyIsSent(t *testing.T) {
	url := fake(t, func(conn net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		}
	})
	g := start(t, before(url))
	conn, r := dial(t, g)
	send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 1000000")+"only this")
	if a := receive(t, r, "POST"); a.status != http.StatusUnauthorized || a.body != "no" {
		t.Errorf("got %d %q, want 401 no", a.status, a.body)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection goes on, want its end")
	}
}

// Both sides send at the same time, as in a chat over one request.
func TestFullDuplexOverHTTP1(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		_ = rc.Flush()
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, "echo "+line)
			_ = rc.Flush()
		}
	})
	g := start(t, before(up.URL))
	conn, r := dial(t, g)
	send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked"))
	res, err := http.ReadResponse(r, &http.Request{Method: "POST"})
	if err != nil {
		t.Fatal(err)
	}
	back := bufio.NewReader(res.Body)
	for _, word := range []string{"one", "two", "three"} {
		send(t, conn, itoa16(len(word)+1)+"\r\n"+word+"\n\r\n")
		if got, err := back.ReadString('\n'); err != nil || got != "echo "+word+"\n" {
			t.Fatalf("got %q, %v, want the echo of %s", got, err, word)
		}
	}
	send(t, conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(back); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v, want the end", rest, err)
	}
}

func TestExpectContinueIsForwarded(t *testing.T) {
	t.Run("it wants the body", func(t *testing.T) {
		up := newRecorder(t)
		g := start(t, before(up.URL))
		conn, r := dial(t, g)
		send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue"))
		if a := receive(t, r, "POST"); a.status != http.StatusContinue {
			t.Fatalf("got %d, want 100", a.status)
		}
		send(t, conn, "hello")
		if a := receive(t, r, "POST"); a.status != 200 {
			t.Errorf("got %d, want 200", a.status)
		}
		if got := up.one(t).body; got != "hello" {
			t.Errorf("the upstream saw %q", got)
		}
	})
	t.Run("it does not", func(t *testing.T) {
		up := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
		g := start(t, before(up.URL))
		conn, r := dial(t, g)
		send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 5", "Expect: 100-continue"))
		if a := receive(t, r, "POST"); a.status != http.StatusForbidden {
			t.Errorf("got %d, want 403 without a 100 before it", a.status)
		}
	})
}

// Some services treat trailers as headers, so headers that a client may not send are removed from trailers too.
func TestRequestTrailersPassUnlessSpoofed(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	a := exchangeRaw(t, g, lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: X-Sum, X-Forwarded-For, X-Forwarded-Proto, X-User-ID")+
		"1\r\na\r\n0\r\nX-Sum: 42\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\nAuthorization: Bearer x\r\nX_Sum: 1\r\n"+
		"X-User-ID: root\r\nX-Original-URL: /admin\r\nX-API-Key: another\r\nX-Request-ID: chosen\r\n\r\n")
	if a.status != 200 {
		t.Fatalf("status %d", a.status)
	}
	got := up.one(t)
	if got.trailer.Get("X-Sum") != "42" {
		t.Errorf("trailers %v, want X-Sum", got.trailer)
	}
	for name, values := range got.trailer {
		if name != "X-Sum" && len(values) > 0 {
			t.Errorf("trailer %s: %q got through", name, values)
		}
	}
}

func TestStreamsArriveAsTheyAreSent(t *testing.T) {
	next := make(chan string)
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		for text := range next {
			_, _ = io.WriteString(w, "data: "+text+"\n\n")
			_ = rc.Flush()
		}
	})
	g := start(t, before(up.URL))
	res, err := http.Get(urlOf(g) + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	for _, text := range []string{"a", "b", "c"} {
		next <- text
		if got, err := r.ReadString('\n'); err != nil || got != "data: "+text+"\n" {
			t.Fatalf("got %q, %v, want %s", got, err, text)
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v, want the end", rest, err)
	}
}
