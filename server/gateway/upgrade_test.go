package gateway

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// echo is an upstream that switches to any protocol and sends back all bytes. Other requests get an ordinary response.
func echo(t testing.TB) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		protocol := r.Header.Get("Upgrade")
		if protocol == "" {
			_, _ = io.WriteString(w, "not upgraded")
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+
			"\r\nSec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\r\n")
		_, _ = io.Copy(conn, buffered)
	})
}

// websocket requests an upgrade, and returns the response.
func websocket(t testing.TB, g *Gateway, more ...string) (net.Conn, *bufio.Reader, clientResponse) {
	t.Helper()
	conn, r := dial(t, g)
	send(t, conn, lines(append([]string{
		"GET /chat HTTP/1.1", "Host: a.example", "Connection: keep-alive, Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
	}, more...)...))
	return conn, r, receive(t, r, "GET")
}

// converse sends text and expects it back.
func converse(t testing.TB, conn net.Conn, r *bufio.Reader, words ...string) {
	t.Helper()
	for _, word := range words {
		send(t, conn, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != word {
			t.Fatalf("got %q, %v, want %q", got, err, word)
		}
	}
}

func TestWebSocketsPassThrough(t *testing.T) {
	up := echo(t)
	c := before(up.URL)
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("RateLimit", `"a";r=1`)
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	conn, r, a := websocket(t, g)
	if a.status != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", a.status)
	}
	for name, want := range map[string]string{
		"Upgrade": "websocket", "Connection": "Upgrade", "Sec-Websocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Keep-Alive": "", "RateLimit": `"a";r=1`,
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	if a.header.Get("X-Request-ID") == "" {
		t.Error("no request id")
	}
	converse(t, conn, r, "\x81\x05hello", strings.Repeat("0123456789", 10_000), "bye")
	if s := g.Stats(); s.Upgrades != 1 || s.Upgraded != 1 {
		t.Errorf("%d upgrades of %d, want 1 of 1", s.Upgrades, s.Upgraded)
	}
	// The end of one direction is passed on, and the other is finished.
	send(t, conn, "last")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "last" {
		t.Errorf("at the end %q, %v, want last", rest, err)
	}
	await.True(t, "the upgrade is over", func() bool { s := g.Stats(); return s.Upgrades == 0 && s.InFlight == 0 && s.Conns == 0 })
}

// Upgraded connections may last for hours. If they counted, every request would yield to others for that long.
func TestUpgradesDoNotCountForYielding(t *testing.T) {
	g := start(t, before(echo(t).URL))
	for range 3 {
		conn, r, _ := websocket(t, g)
		converse(t, conn, r, "hello")
	}
	s := g.routes.all[0].upstreams[0]
	defer s.inFlight.Add(-2)
	for i, want := range []bool{false, true} {
		if got := s.countRequest(1); got != want {
			t.Errorf("request %d beside 3 upgrades, one of which may be in flight: above the limit %t, want %t", i+1, got, want)
		}
	}
}

// Bytes that the client sends together with its request are not lost.
func TestUpgradeForwardsEarlyBytes(t *testing.T) {
	up := echo(t)
	g := start(t, before(up.URL))
	conn, r := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: websocket")+"early ")
	if a := receive(t, r, "GET"); a.status != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", a.status)
	}
	send(t, conn, "late")
	got := make([]byte, len("early late"))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != "early late" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Protocols that carry requests would bypass the limiter, so they are not upgraded to; nor is a request with a body.
func TestDisallowedUpgradesAreOrdinaryRequests(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	for name, text := range map[string]string{
		"h2c":               lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
		"h2c in a list":     lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: h2c, foo"),
		"TLS":               lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: TLS/1.0"),
		"not in Connection": lines("GET / HTTP/1.1", "Host: a.example", "Upgrade: websocket"),
		"with a body":       lines("POST / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: websocket", "Content-Length: 1") + "x",
	} {
		t.Run(name, func(t *testing.T) {
			if a := exchangeRaw(t, g, text); a.status != 200 {
				t.Errorf("status %d, want 200", a.status)
			}
			if h := up.one(t).header; h.Get("Upgrade") != "" || h.Get("Connection") != "" || h.Get("Http2-Settings") != "" {
				t.Errorf("the upstream was asked to switch: %v", h)
			}
		})
	}
}

func TestResponseToRefusedUpgradeIsForwarded(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no")
	})
	g := start(t, before(up.URL))
	conn, r, a := websocket(t, g)
	if a.status != http.StatusForbidden || a.body != "no" {
		t.Errorf("got %d %q, want 403 no", a.status, a.body)
	}
	// The next bytes are a request, and are not forwarded unseen.
	send(t, conn, lines("GET /second HTTP/1.1", "Host: a.example"))
	if a := receive(t, r, "GET"); a.status != http.StatusForbidden {
		t.Errorf("then %d, want 403", a.status)
	}
	if s := g.Stats(); s.Requests != 2 || s.Upgraded != 0 {
		t.Errorf("%d requests, %d upgrades, want 2 and 0", s.Requests, s.Upgraded)
	}
}

func TestUpstreamThatSwitchesToAnotherProtocolIs502(t *testing.T) {
	url := fake(t, says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"))
	g := start(t, before(url))
	_, _, a := websocket(t, g)
	wantProblem(t, a, http.StatusBadGateway)
}

func TestOtherProtocolsPassIfConfigured(t *testing.T) {
	up := echo(t)
	c := before(up.URL)
	c.Upgrades = []string{"echo"}
	g := start(t, c)
	conn, r := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: foo, Echo"))
	if a := receive(t, r, "GET"); a.status != http.StatusSwitchingProtocols || a.header.Get("Upgrade") != "echo" {
		t.Fatalf("got %d %v, want 101 to echo", a.status, a.header)
	}
	converse(t, conn, r, "a", "b")
	if _, _, a := websocket(t, g); a.status != 200 {
		t.Errorf("websocket: %d, want 200, as it is not configured", a.status)
	}
}

func TestIdleUpgradesEnd(t *testing.T) {
	t.Parallel()
	up := echo(t)
	c := before(up.URL)
	c.StreamTimeout = time.Second
	g := start(t, c)
	conn, r, _ := websocket(t, g)
	end := time.Now().Add(2 * time.Second)
	for time.Now().Before(end) { // longer than the bound, but never silent for so long
		converse(t, conn, r, "x")
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("something came, want the end")
	}
	await.True(t, "the upgrade is over", func() bool { s := g.Stats(); return s.Upgrades == 0 && s.UpgradesIdle == 1 })
}

func TestOldUpgradesEnd(t *testing.T) {
	up := echo(t)
	c := before(up.URL)
	c.MaxUpgradeAge = 200 * time.Millisecond
	g := start(t, c)
	conn, r, _ := websocket(t, g)
	for {
		if _, err := io.WriteString(conn, "x"); err != nil {
			break
		}
		if _, err := r.ReadByte(); err != nil {
			break
		}
	}
	await.True(t, "the upgrade is over", func() bool { s := g.Stats(); return s.Upgrades == 0 && s.UpgradesAged == 1 })
}

// Rules see the protocol that the connection will be upgraded to.
func TestLimiterSeesTheProtocolOfAnUpgrade(t *testing.T) {
	up := echo(t)
	var saw http.Header
	c := before(up.URL)
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			saw = r.Header.Clone()
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	for sent, want := range map[string]string{"WebSocket": "websocket", "foo, websocket": "websocket", "h2c": "", "foo": ""} {
		conn, r := dial(t, g)
		send(t, conn, lines("GET / HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: "+sent))
		receive(t, r, "GET")
		if got := saw.Get("Upgrade"); got != want || saw.Get("Connection") != "" {
			t.Errorf("Upgrade: %s: the limiter saw %q and Connection %q, want %q and none", sent, got, saw.Get("Connection"), want)
		}
	}
}

func TestUpgradesAreBounded(t *testing.T) {
	up := echo(t)
	c := before(up.URL)
	c.MaxUpgrades = 2
	g := start(t, c)
	first, _, _ := websocket(t, g)
	websocket(t, g)
	_, _, a := websocket(t, g)
	wantProblem(t, a, http.StatusServiceUnavailable)
	_ = first.Close()
	await.True(t, "there is room", func() bool { return g.Stats().Upgrades == 1 })
	if _, _, a := websocket(t, g); a.status != http.StatusSwitchingProtocols {
		t.Errorf("then %d, want 101", a.status)
	}
}

func TestUpgradeIsRetriedOnAnotherUpstream(t *testing.T) {
	up := echo(t)
	g := start(t, before(refusing(t), up.URL))
	for range 4 {
		if _, _, a := websocket(t, g); a.status != http.StatusSwitchingProtocols {
			t.Errorf("status %d, want 101", a.status)
		}
	}
}

func TestUpgradesGetUpgradeGraceDuringDrain(t *testing.T) {
	t.Parallel()
	up := echo(t)
	c := before(up.URL)
	c.UpgradeGrace = 2 * time.Second
	var released atomic.Int32
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer released.Add(1)
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	conn, r, _ := websocket(t, g)
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- g.Shutdown(context.Background()) }()
	await.True(t, "it drains", func() bool { return !g.Ready() })
	converse(t, conn, r, "still", "there")
	if _, err := r.ReadByte(); err == nil {
		t.Error("something came, want the end")
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if took := time.Since(begun); took < c.UpgradeGrace {
		t.Errorf("it took %v, want the grace of %v", took, c.UpgradeGrace)
	}
	if s := g.Stats(); s.Upgrades != 0 || s.UpgradesCut != 1 {
		t.Errorf("%d upgrades, %d cut, want 0 and 1", s.Upgrades, s.UpgradesCut)
	}
	if released.Load() != 1 {
		t.Errorf("the limiter was released %d times, want once", released.Load())
	}
}

// A client that does not read the response to its refused upgrade is not the upstream's fault.
func TestSlowClientOfARefusedUpgradeEjectsNoUpstream(t *testing.T) {
	t.Parallel()
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for range 64 { // more than the sockets hold
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	c := before(up.URL)
	c.StreamTimeout, c.WriteTimeout = 2*time.Second, 4*time.Second
	g := start(t, c)
	conn, _ := dial(t, g)
	send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	await.True(t, "the exchange has failed", func() bool { return len(g.Stats().Upstreams[0].Faults) > 0 })
	if got := g.Stats().Upstreams[0]; got.Failed != 0 || got.Faults[upstream.FaultClient] != 1 {
		t.Errorf("got %d failures of the upstream, faults %v, want one of the client", got.Failed, got.Faults)
	}
}
