package gateway

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func itoa(n int) string   { return strconv.Itoa(n) }
func itoa16(n int) string { return strconv.FormatInt(int64(n), 16) }

// ends waits for the end of a connection without sending anything.
func ends(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection does not end: %v", err)
	}
}

func TestSlowHeadersEndTheConnection(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.HeaderTimeout = 150 * time.Millisecond
	g := start(t, c)
	var all []net.Conn
	for _, begin := range []string{"", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\n", "PRI * HTTP/2.0\r\n\r\n"} {
		conn, _ := dial(t, g)
		send(t, conn, begin)
		all = append(all, conn)
	}
	// A trickle does not help.
	conn, _ := dial(t, g)
	send(t, conn, "GET / HTTP/1.1\r\n")
	go trickle(t.Context(), conn, "A: b\r\n")
	for _, conn := range append(all, conn) {
		ends(t, conn)
	}
	await.True(t, "no connection is left", func() bool { return g.Stats().Conns == 0 })
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v, want nothing", seen)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.IdleTimeout = 100 * time.Millisecond
	g := start(t, c)
	conn, r := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	receive(t, r, "GET")
	ends(t, conn)
}

// A client that does not read its response holds neither a goroutine nor an upstream connection for long.
func TestClientsThatDoNotReadAreDisconnected(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			if _, err := w.Write(big); err != nil {
				return
			}
		}
	})
	c := before(up.URL)
	c.WriteTimeout = 200 * time.Millisecond
	g := start(t, c)
	conn, _ := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	await.True(t, "the response is cut off", func() bool { return g.Stats().Aborted == 1 })
	await.True(t, "no request is left", func() bool { s := g.Stats(); return s.InFlight == 0 && s.Conns == 0 && s.Upstreams[0].InFlight == 0 })

	// Small responses that are never read fill up as well.
	small := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big[:1<<14]) })
	c = before(small.URL)
	c.WriteTimeout = 200 * time.Millisecond
	g = start(t, c)
	conn, _ = dial(t, g)
	go func() {
		for {
			if _, err := io.WriteString(conn, lines("GET / HTTP/1.1", "Host: a.example")); err != nil {
				return
			}
		}
	}()
	await.True(t, "requests are served", func() bool { return g.Stats().Requests > 0 })
	await.True(t, "the connection is closed", func() bool { return g.Stats().Conns == 0 })
}

// A client that reads slowly gets all of it.
func TestSlowReadersGetWholeResponse(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", itoa(size))
		_, _ = io.CopyN(w, zeros{}, size)
	})
	c := before(up.URL)
	c.WriteTimeout = time.Second
	g := start(t, c)
	res, err := http.Get(urlOf(g))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	begin := time.Now()
	buffer := make([]byte, 128<<10)
	total := 0
	for {
		n, err := io.ReadFull(res.Body, buffer)
		total += n
		if err != nil {
			break
		}
		time.Sleep(30 * time.Millisecond) // it is slow: all of it takes longer than WriteTimeout
	}
	if total != size {
		t.Errorf("got %d bytes in %v, want %d", total, time.Since(begin), size)
	}
}

// A client that waits for an upstream which pauses in its response is not cut off.
func TestUpstreamPausesAreNotBlamedOnClient(t *testing.T) {
	t.Parallel()
	const size = 20_000
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", itoa(size))
		}
		for range 4 {
			_, _ = io.CopyN(w, zeros{}, size/4)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(700 * time.Millisecond) // longer than WriteTimeout
		}
	})
	c := before(up.URL)
	c.WriteTimeout = time.Second / 2
	g := start(t, c)
	var all sync.WaitGroup
	for _, client := range []*http.Client{http.DefaultClient, h2cClient(t)} {
		for _, path := range []string{"/known", "/unknown"} {
			all.Go(func() {
				res, err := client.Get(urlOf(g) + path)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if n != size || err != nil {
					t.Errorf("%s of %s: %d bytes, %v, want %d", res.Proto, path, n, err, size)
				}
			})
		}
	}
	all.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Slow clients do not slow down others.
func TestSlowClientsDoNotHoldUpOthers(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	for range 100 {
		conn, _ := dial(t, g)
		send(t, conn, "GET / HTTP/1.1\r\nHost: a.example\r\n")
		conn, _ = dial(t, g)
		send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 100000")+"x")
	}
	for range 100 {
		if a := get(t, g, "/"); a.status != 200 {
			t.Fatalf("status %d, want 200", a.status)
		}
	}
}
