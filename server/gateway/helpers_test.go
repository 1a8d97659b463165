package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/gateway/internal/rawhttp"
)

const patience = rawhttp.Patience

var quiet = slog.New(slog.DiscardHandler)

// start runs a gateway until the test ends. Listeners default to one on a free port of the loopback interface.
func start(t testing.TB, c Config) *Gateway {
	t.Helper()
	g := create(t, c)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- g.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve has not ended")
		}
	})
	await.True(t, "the gateway is ready", g.Ready)
	return g
}

func create(t testing.TB, c Config) *Gateway {
	t.Helper()
	if len(c.Listeners) == 0 {
		c.Listeners = []Listener{{}}
	}
	for i := range c.Listeners {
		if c.Listeners[i].Address == "" {
			c.Listeners[i].Address = "127.0.0.1:0"
		}
	}
	if os.Getenv("GATEWAY_FRONT") == "net/http" { // to compare with net/http
		c.NetHTTP = true
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	if c.DrainLinger == 0 {
		c.DrainLinger = time.Millisecond
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 2 * time.Second
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// before returns a Config with one route to the upstreams.
func before(urls ...string) Config {
	r := Route{}
	for _, u := range urls {
		r.Upstreams = append(r.Upstreams, Upstream{URL: u})
	}
	return Config{Routes: []Route{r}}
}

func addrOf(g *Gateway) string { return g.Addrs()[0].String() }

func urlOf(g *Gateway) string { return "http://" + addrOf(g) }

// serve runs an upstream.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// A record is a request that an upstream has received.
type record struct {
	method, target, host, proto string
	header                      http.Header
	trailer                     http.Header
	body                        string
	length                      int64
}

// A recorder is an upstream that records its requests.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []record
}

// readAll reads a request. One that is cut off is an error.
func readAll(r *http.Request) (record, error) {
	body, err := io.ReadAll(r.Body)
	return record{
		method: r.Method, target: r.RequestURI, host: r.Host, proto: r.Proto, header: r.Header.Clone(), trailer: r.Trailer.Clone(),
		body: string(body), length: r.ContentLength,
	}, err
}

func newRecorder(t testing.TB) *recorder {
	t.Helper()
	rec := &recorder{}
	rec.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		one, err := readAll(r)
		if err != nil {
			return // no request at all
		}
		rec.mu.Lock()
		rec.seen = append(rec.seen, one)
		rec.mu.Unlock()
		_, _ = io.WriteString(w, "served "+one.target)
	})
	return rec
}

// taken returns the requests since the last call.
func (r *recorder) taken() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// one returns the only request since the last call.
func (r *recorder) one(t testing.TB) record {
	t.Helper()
	seen := r.taken()
	if len(seen) != 1 {
		t.Fatalf("the upstream saw %d requests, want 1: %+v", len(seen), seen)
	}
	return seen[0]
}

// fake runs an upstream that calls a function for each connection.
func fake(t testing.TB, do func(conn net.Conn, r *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(patience))
				do(conn, bufio.NewReader(conn))
			})
		}
	})
	return "http://" + l.Addr().String()
}

// refusing returns the URL of an upstream that refuses connections.
func refusing(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// dial connects to the gateway.
func dial(t testing.TB, g *Gateway) (net.Conn, *bufio.Reader) {
	t.Helper()
	return rawhttp.Dial(t, addrOf(g))
}

func send(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	rawhttp.Send(t, conn, text)
}

func lines(l ...string) string { return rawhttp.Lines(l...) }

// trickle sends a text again and again, fifty times a second, until the connection ends or the context.
func trickle(ctx context.Context, conn net.Conn, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// A clientResponse is a response as a client received it.
type clientResponse struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	close   bool
}

// receive reads one response to a request of a method.
func receive(t testing.TB, r *bufio.Reader, method string) clientResponse {
	t.Helper()
	a, err := tryReceive(r, method)
	if err != nil {
		t.Fatalf("read the response: %v (so far %+v)", err, a)
	}
	return a
}

func tryReceive(r *bufio.Reader, method string) (clientResponse, error) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return clientResponse{}, err
	}
	body, err := io.ReadAll(res.Body)
	a := clientResponse{status: res.StatusCode, header: res.Header, body: string(body), trailer: res.Trailer, close: res.Close}
	return a, err
}

// exchangeRaw sends text on a new connection and reads one response.
func exchangeRaw(t testing.TB, g *Gateway, text string) clientResponse {
	t.Helper()
	conn, r := dial(t, g)
	send(t, conn, text)
	method, _, _ := strings.Cut(text, " ")
	return receive(t, r, method)
}

// get sends a request to the gateway with an ordinary client.
func get(t testing.TB, g *Gateway, path string, header ...string) clientResponse {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, urlOf(g)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, http.DefaultClient, r, header...)
}

func do(t testing.TB, c *http.Client, r *http.Request, header ...string) clientResponse {
	t.Helper()
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read the response: %v", r.Method, r.URL, err)
	}
	return clientResponse{status: res.StatusCode, header: res.Header, body: string(body), trailer: res.Trailer, close: res.Close}
}

// wantProblem checks a response of the gateway itself.
func wantProblem(t testing.TB, a clientResponse, status int) problem {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if got := a.header.Get("Content-Type"); got != problemType {
		t.Errorf("Content-Type %q, want %q", got, problemType)
	}
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	if p.Status != status || p.Title != http.StatusText(status) || p.Type != "about:blank" || p.Detail == "" {
		t.Errorf("problem %+v, want one of %d", p, status)
	}
	if p.ID == "" || p.ID != a.header.Get(DefaultRequestID) {
		t.Errorf("request id %q in the body and %q in the header, want the same", p.ID, a.header.Get(DefaultRequestID))
	}
	return p
}

func nets(t testing.TB, text string) []netip.Prefix {
	t.Helper()
	n, err := identity.ParseNetworks(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func identify(t testing.TB, c identity.Config) *identity.Identifier {
	t.Helper()
	id, err := identity.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// behindLoopback trusts proxies on this machine, which all clients in tests are.
func behindLoopback(t testing.TB) *identity.Identifier {
	t.Helper()
	return identify(t, identity.Config{TrustedProxies: nets(t, "127.0.0.0/8")})
}

// A logBook is a log for tests, with one record per line.
type logBook struct{ logbook.Book }

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// each returns the records that have a message.
func (l *logBook) each(t testing.TB, message string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(l.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if record["msg"] == message {
			all = append(all, record)
		}
	}
	return all
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReader(conn) }

func mustNets(text string) []netip.Prefix {
	n, err := identity.ParseNetworks(text)
	if err != nil {
		panic(err)
	}
	return n
}
