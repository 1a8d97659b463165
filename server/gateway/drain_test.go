package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// Clients come through a load balancer, which opens no new connections to a gateway that is not ready. Existing ones
// are used until the gateway closes them, and no request fails.
func TestDrainUnderLoadFailsNoRequest(t *testing.T) {
	t.Parallel()
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // the handler's work
		_, _ = w.Write(body)
	})
	c := before(up.URL)
	c.DrainDelay = 2 * time.Second   // longer than connecting takes after Ready was seen
	c.DrainLinger = 30 * time.Second // ends when there is no connection left
	g := start(t, c)
	var served, failed, refused, late atomic.Int64
	var all sync.WaitGroup
	errNotReady := errors.New("not ready")
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if !g.Ready() {
			return nil, errNotReady
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	h2c := h2cClient(t)
	h2c.Transport.(*http.Transport).DialContext = dial
	for i := range 16 {
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		if i%4 == 0 {
			client = h2c
		}
		all.Go(func() {
			defer client.CloseIdleConnections()
			for {
				// A POST, which clients do not send again by themselves.
				res, err := client.Post(urlOf(g), "text/plain", strings.NewReader("hello"))
				if err != nil {
					if errors.Is(err, errNotReady) {
						refused.Add(1) // the client sends it to another server
					} else {
						failed.Add(1)
						t.Error(err)
					}
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(body) != "hello" || res.StatusCode != 200 {
					failed.Add(1)
					t.Errorf("got %d %q, %v", res.StatusCode, body, err)
				}
				served.Add(1)
				if !g.Ready() {
					late.Add(1)
				}
			}
		})
	}
	await.True(t, "there is load", func() bool { return served.Load() > 200 })
	if err := g.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	all.Wait()
	if failed.Load() != 0 || refused.Load() != 16 || late.Load() == 0 {
		t.Errorf("of %d requests %d failed, %d were served while it drained, and %d clients were sent elsewhere, want 0, some and 16",
			served.Load(), failed.Load(), late.Load(), refused.Load())
	}
	if s := g.Stats(); s.InFlight != 0 || s.Conns != 0 {
		t.Errorf("%d requests and %d connections are left", s.InFlight, s.Conns)
	}
}

func TestDrainAsksClientsToReconnect(t *testing.T) {
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	})
	c := before(up.URL)
	c.DrainLinger = time.Minute // ends when there is no connection left
	g := start(t, c)
	slow, slowAnswer := dial(t, g)
	send(t, slow, lines("GET /slow HTTP/1.1", "Host: a.example"))
	idle, idleAnswer := dial(t, g)
	send(t, idle, lines("GET / HTTP/1.1", "Host: a.example"))
	if a := receive(t, idleAnswer, "GET"); a.close {
		t.Error("the connection is closed before the drain")
	}
	done := make(chan error, 1)
	go func() { done <- g.Shutdown(context.Background()) }()
	await.True(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", addrOf(g))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if g.Ready() {
		t.Error("it is still ready")
	}
	// A request on an idle connection is still served, the last one there.
	send(t, idle, lines("GET / HTTP/1.1", "Host: a.example"))
	if a := receive(t, idleAnswer, "GET"); a.status != 200 || !a.close {
		t.Errorf("while it drains: %d, close %v, want 200 and the end", a.status, a.close)
	}
	free()
	if a := receive(t, slowAnswer, "GET"); a.status != 200 || !a.close {
		t.Errorf("in flight: %d, close %v, want 200 and the end", a.status, a.close)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
}

func TestDrainIsUnreadyBeforeItStopsAccepting(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.DrainDelay = time.Minute // for as long as this takes
	g := start(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = g.Shutdown(ctx) })
	defer done.Wait()
	defer cancel()
	await.True(t, "it is not ready", func() bool { return !g.Ready() })
	conn, r := dial(t, g) // still accepted
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	if a := receive(t, r, "GET"); a.status != 200 {
		t.Errorf("status %d, want 200", a.status)
	}
}

func TestDrainTimeoutAbortsRequests(t *testing.T) {
	began := make(chan struct{})
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})
	g := start(t, before(up.URL))
	conn, r := dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v, want that it took too long", err)
	}
	if a, err := tryReceive(r, "GET"); err == nil {
		t.Errorf("got %+v, want the end of the connection", a)
	}
	await.True(t, "nothing is in flight", func() bool { return g.Stats().InFlight == 0 })
}

func TestServeEndsWithItsContext(t *testing.T) {
	up := newRecorder(t)
	g := create(t, before(up.URL))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx) }()
	await.True(t, "it is ready", g.Ready)
	if err := g.Serve(context.Background()); err == nil {
		t.Error("a second Serve: no error")
	}
	get(t, g, "/")
	http.DefaultClient.CloseIdleConnections()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Serve has not ended")
	}
	if err := g.Serve(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve afterwards: %v, want %v", err, ErrClosed)
	}
}

func TestShutdownLeavesNoGoroutine(t *testing.T) {
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	up := echo(t)
	c := before(up.URL)
	c.Listeners = []Listener{{}, {TLS: &TLS{Certificates: []CertificateFiles{files}}}}
	c.AccessLog = &AccessLog{Every: 1}
	c.Routes[0].Health = &Health{Path: "/", Interval: 50 * time.Millisecond}
	c.UpgradeGrace = time.Millisecond
	g := start(t, c)
	websocket(t, g)
	get(t, g, "/")
	await.True(t, "goroutines of listeners, health, log and upgrade are seen", func() bool { return running() >= 5 })
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	await.True(t, "none is left", func() bool { return running() == 0 })
}

// running returns how many goroutines there are in methods of gateways and their upstreams.
func running() (n int) {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	for one := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(one, "gateway.(*Gateway).") && !strings.Contains(one, "gateway.(*Gateway).Serve(") || strings.Contains(one, "gateway/upstream.") {
			n++
		}
	}
	return n
}

func TestShutdownWithoutServe(t *testing.T) {
	up := newRecorder(t)
	g := create(t, before(up.URL))
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	if len(g.Addrs()) != 1 {
		t.Errorf("addresses %v, want one", g.Addrs())
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addrOf(g)); err == nil {
		_ = conn.Close()
		t.Error("the listener is still open")
	}
}

func TestAddressInUseIsAnError(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	c := before(up.URL)
	c.Listeners = []Listener{{Address: "127.0.0.1:0"}, {Address: addrOf(g)}}
	second := create(t, c)
	if err := second.Serve(context.Background()); err == nil || !strings.Contains(err.Error(), addrOf(g)) {
		t.Errorf("Serve: %v, want that %s is in use", err, addrOf(g))
	}
}
