package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/internal/conns"
)

// deny responds to /denied with 429, and holds requests for /held until the test ends.
func deny(t testing.TB) func(http.Handler) http.Handler {
	ended, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/denied":
				w.WriteHeader(http.StatusTooManyRequests)
			case "/held":
				select {
				case <-ended.Done():
				case <-r.Context().Done():
				}
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// A client connects from its own address.
type client struct {
	t    testing.TB
	g    *Gateway
	from string
}

// connect connects, and returns nil if the gateway closes the connection at once.
func (c client) connect() (net.Conn, *bufio.Reader) {
	c.t.Helper()
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
	conn, err := dialer.Dial("tcp", addrOf(c.g))
	if err != nil {
		return nil, nil
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

// get sends a request on a new connection, and returns the status; 0 if there is no response.
func (c client) get(path string) int {
	c.t.Helper()
	conn, r := c.connect()
	if conn == nil {
		return 0
	}
	if _, err := io.WriteString(conn, lines("GET "+path+" HTTP/1.1", "Host: a.example")); err != nil {
		return 0
	}
	a, err := tryReceive(r, "GET")
	if err != nil {
		return 0
	}
	return a.status
}

// hold opens connections, each with a request in flight.
func (c client) hold(n int) {
	c.t.Helper()
	before := c.g.Stats().InFlight
	for range n {
		conn, _ := c.connect()
		send(c.t, conn, lines("GET /held HTTP/1.1", "Host: a.example"))
	}
	await.True(c.t, "the requests are in flight", func() bool { return c.g.Stats().InFlight == before+int64(n) })
}

func TestConnectionsOverLimitAreClosed(t *testing.T) {
	c := before(newRecorder(t).URL)
	c.MaxConns, c.Limit = 2, deny(t)
	g := start(t, c)
	one := client{t, g, "127.0.0.1"}
	one.hold(2)
	if got := one.get("/"); got != 0 {
		t.Errorf("a third connection beside two that serve requests: got %d", got)
	}
	if s := g.Stats(); s.Refused != 1 || s.Reclaimed != 0 || s.Conns != 2 {
		t.Errorf("got %d refused, %d reclaimed, %d open; want 1, 0, 2", s.Refused, s.Reclaimed, s.Conns)
	}
}

func TestOneAddressDoesNotLockOutOthers(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"our own server": func(*Config) {},
		"net/http":       func(c *Config) { c.NetHTTP = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := before(newRecorder(t).URL)
			c.MaxConns, c.MaxConnsPerAddress, c.Limit = 20, 5, deny(t)
			change(&c)
			g := start(t, c)
			greedy := client{t, g, "127.0.0.1"}
			for range 100 { // its connections stay open until the test ends
				if got := greedy.get("/denied"); got != 429 && got != 0 {
					t.Fatalf("got %d, want 429 or nothing", got)
				}
			}
			if s := g.Stats(); s.Conns != 5 {
				t.Errorf("one address has %d connections, want 5", s.Conns)
			}
			busy := client{t, g, "127.0.0.50"}
			busy.hold(5)
			if got := busy.get("/"); got != 0 {
				t.Errorf("one more of an address whose connections all serve requests: got %d", got)
			}
			for i := range 10 {
				if got := (client{t, g, fmt.Sprintf("127.0.0.%d", 100+i)}).get("/"); got != 200 {
					t.Errorf("another address: got %d, want 200", got)
				}
			}
		})
	}
}

// Each address is within its limit, and together they use all connections.
func TestIdleAndDeniedConnectionsMakeRoom(t *testing.T) {
	c := before(newRecorder(t).URL)
	c.MaxConns, c.MaxConnsPerAddress, c.Limit = 12, 3, deny(t)
	g := start(t, c)
	client{t, g, "127.0.0.1"}.hold(3)
	denied, r1 := client{t, g, "127.0.0.2"}.connect()
	send(t, denied, lines("GET /denied HTTP/1.1", "Host: a.example"))
	receive(t, r1, "GET")
	idle, r2 := client{t, g, "127.0.0.3"}.connect()
	send(t, idle, lines("GET / HTTP/1.1", "Host: a.example"))
	receive(t, r2, "GET")
	client{t, g, "127.0.0.4"}.hold(3)
	client{t, g, "127.0.0.5"}.hold(3)
	client{t, g, "127.0.0.6"}.hold(1)
	if got := g.Stats().Conns; got != 12 {
		t.Fatalf("got %d connections, want all 12", got)
	}
	if got := (client{t, g, "127.0.0.7"}).get("/"); got != 200 {
		t.Errorf("a new client: got %d, want 200", got)
	}
	ends(t, denied)
	if got := (client{t, g, "127.0.0.8"}).get("/"); got != 200 {
		t.Errorf("another new client: got %d, want 200", got)
	}
	if s := g.Stats(); s.Reclaimed != 2 || s.Refused != 0 || s.Conns != 12 {
		t.Errorf("got %d reclaimed, %d refused, %d open; want 2, 0, 12", s.Reclaimed, s.Refused, s.Conns)
	}
}

// Idle connections of HTTP/2 are known too.
func TestIdleConnectionsOfHTTP2MakeRoom(t *testing.T) {
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	c := before(newRecorder(t).URL)
	c.MaxConns, c.MaxConnsPerAddress, c.Limit = 3, 2, deny(t)
	c.Listeners = []Listener{{TLS: &TLS{Certificates: []CertificateFiles{files}}}}
	g := start(t, c)
	connect := func(from string) *http.Client {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	ask := func(from, path string) error {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+addrOf(g)+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		got, err := connect(from).Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = got.Body.Close() }()
		if _, err := io.Copy(io.Discard, got.Body); err != nil {
			return err
		}
		if got.ProtoMajor != 2 {
			t.Errorf("got %s, want HTTP/2", got.Proto)
		}
		return nil
	}
	for range 2 {
		go func() { _ = ask("127.0.0.1", "/held") }() // until the test ends
	}
	await.True(t, "two requests are in flight", func() bool { return g.Stats().InFlight == 2 })
	for i := range 5 {
		from := fmt.Sprintf("127.0.0.%d", 10+i)
		await.NoError(t, "a new client is served as soon as the previous one is idle", func() error { return ask(from, "/") })
	}
	if s := g.Stats(); s.Reclaimed < 4 || s.InFlight != 2 {
		t.Errorf("got %d reclaimed, %d in flight; want 4, 2", s.Reclaimed, s.InFlight)
	}
}

func TestTrustedProxiesHaveAnyNumberOfConnections(t *testing.T) {
	for name, trust := range map[string]identity.Config{
		"by address": {TrustedProxies: mustNets("127.0.0.0/8")}, "by hops": {Hops: 1},
	} {
		c := before(newRecorder(t).URL)
		c.MaxConns, c.MaxConnsPerAddress, c.Limit, c.Identity = 20, 2, deny(t), identify(t, trust)
		g := start(t, c)
		client{t, g, "127.0.0.1"}.hold(19)
		if got := (client{t, g, "127.0.0.1"}).get("/"); got != 200 {
			t.Errorf("%s: the last connection: got %d, want 200", name, got)
		}
	}
}

func TestLoadBalancerClientsAreLimitedByOwnAddress(t *testing.T) {
	c := before(newRecorder(t).URL)
	c.MaxConns, c.MaxConnsPerAddress, c.Limit = 20, 2, deny(t)
	c.Listeners = []Listener{{ProxyProtocol: mustNets("127.0.0.0/8")}}
	g := start(t, c)
	ask := func(from, path string) (clientResponse, error) {
		conn, r := client{t, g, "127.0.0.1"}.connect()
		send(t, conn, "PROXY TCP4 "+from+" 192.0.2.1 4711 443\r\n"+lines("GET "+path+" HTTP/1.1", "Host: a.example"))
		if path == "/held" {
			return clientResponse{}, nil
		}
		return tryReceive(r, "GET")
	}
	for range 2 {
		if _, err := ask("203.0.113.1", "/held"); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "two requests are in flight", func() bool { return g.Stats().InFlight == 2 })
	if a, err := ask("203.0.113.1", "/"); err == nil {
		t.Errorf("a third connection of a client: got %d, want the end", a.status)
	}
	for i := range 10 {
		if a, err := ask(fmt.Sprintf("203.0.113.%d", 2+i), "/"); err != nil || a.status != 200 {
			t.Errorf("another client: got %d, %v", a.status, err)
		}
	}
}

func TestUpgradedConnectionsCountForTheirAddress(t *testing.T) {
	c := before(echo(t).URL)
	c.MaxConns, c.MaxConnsPerAddress = 4, 3
	g := start(t, c)
	var first net.Conn
	for i := range 3 {
		conn, r, a := websocket(t, g)
		if a.status != http.StatusSwitchingProtocols {
			t.Fatalf("upgrade %d: got %d", i, a.status)
		}
		converse(t, conn, r, "hello")
		if i == 0 {
			first = conn
		}
	}
	if s := g.Stats(); s.Conns != 0 || s.Upgrades != 3 {
		t.Errorf("got %d connections and %d upgrades, want 0 and 3", s.Conns, s.Upgrades)
	}
	if got := (client{t, g, "127.0.0.1"}).get("/"); got != 0 {
		t.Errorf("a fourth connection of the address: got %d, want none", got)
	}
	if got := (client{t, g, "127.0.0.2"}).get("/"); got == 0 {
		t.Error("another address: got no response")
	}
	_ = first.Close()
	await.True(t, "the address has room again", func() bool { return (client{t, g, "127.0.0.1"}).get("/") != 0 })
}

func TestUpgradesNeedADescriptorForTheUpstream(t *testing.T) {
	c := before(echo(t).URL)
	c.Descriptors = conns.Share{Reserved: 3, Shared: conns.NewBudget(0)}
	g := start(t, c)
	if conn, r, a := websocket(t, g); a.status != http.StatusSwitchingProtocols {
		t.Fatalf("got %d with three descriptors, want 101", a.status)
	} else {
		converse(t, conn, r, "hello")
	}
	if _, _, a := websocket(t, g); a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d with none left for the upstream, want 503", a.status)
	}
}

// Each upload at the minimum rate holds an upstream connection.
func TestUploadsOfOneClientLeaveConnectionsToOthers(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " ", err)
	})
	for name, framing := range map[string]string{"of a known length": "Content-Length: 20000", "chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			c := before(up.URL)
			c.Routes[0].UpstreamConns = 8 // two of them for the uploads of one client
			g := start(t, c)
			body, end := strings.Repeat("x", 19_990), strings.Repeat("x", 10)
			if name == "chunked" {
				body, end = "4e16\r\n"+body, "\r\n0\r\n\r\n"
			}
			begin := func(from string) (net.Conn, *bufio.Reader) {
				conn, r := client{t, g, from}.connect()
				send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", framing)+body)
				return conn, r
			}
			slow, r := begin("127.0.0.1")
			begin("127.0.0.1")
			await.True(t, "two uploads are at the upstream", func() bool { return g.Stats().Upstreams[0].InFlight == 2 })
			for range 10 {
				_, refused := begin("127.0.0.1")
				a := receive(t, refused, "POST")
				wantProblem(t, a, http.StatusTooManyRequests)
				if a.header.Get("Retry-After") != "1" {
					t.Errorf("got Retry-After %q, want 1", a.header.Get("Retry-After"))
				}
			}
			for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
				if got := (client{t, g, from}).get("/"); got != 200 {
					t.Errorf("a request without a body from %s: got %d", from, got)
				}
			}
			other, r3 := begin("127.0.0.2")
			for conn, r := range map[net.Conn]*bufio.Reader{slow: r, other: r3} {
				send(t, conn, end)
				if a := receive(t, r, "POST"); a.status != 200 {
					t.Errorf("an upload that is completed: got %d", a.status)
				}
			}
			if s := g.Stats(); s.UploadsRefused != 10 {
				t.Errorf("got %d uploads refused, want 10", s.UploadsRefused)
			}
			again, r4 := begin("127.0.0.1")
			send(t, again, end)
			if a := receive(t, r4, "POST"); a.status != 200 {
				t.Errorf("after one upload is done, another: got %d, want 200", a.status)
			}
		})
	}
}

// The upload ends before the response, which may take long.
func TestUploadEndsWhenBodyIsRead(t *testing.T) {
	held := make(chan struct{})
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-held
	})
	defer close(held)
	c := before(up.URL)
	c.Routes[0].UploadsPerClient = 1
	g := start(t, c)
	for i := range 3 {
		conn, _ := client{t, g, "127.0.0.1"}.connect()
		send(t, conn, lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 20000")+strings.Repeat("x", 20_000))
		await.True(t, "the upload is at the upstream", func() bool { return g.Stats().Upstreams[0].InFlight == int64(i+1) })
		await.True(t, "its body was read", func() bool { return g.routes.all[0].uploads.of(netip.MustParseAddr("127.0.0.1")) == 0 })
	}
}
