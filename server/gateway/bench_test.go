package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/gateway/upstream"
)

// nullWriter is a serverWriter that sends nothing.
type nullWriter struct {
	header http.Header
	status int
}

func newNullFront() *nullWriter { return &nullWriter{header: make(http.Header, 8)} }

func (w *nullWriter) Header() http.Header              { return w.header }
func (w *nullWriter) Write(p []byte) (int, error)      { return len(p), nil }
func (w *nullWriter) WriteHeader(code int)             { w.status = code }
func (w *nullWriter) FlushError() error                { return nil }
func (w *nullWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *nullWriter) SetWriteDeadline(time.Time) error { return nil }
func (w *nullWriter) EnableFullDuplex() error          { return nil }

var _ serverWriter = (*nullWriter)(nil)

// benchRequest is a request as sent by a browser's script.
func benchRequest() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/search/items?q=shoes&page=2", http.NoBody)
	r.RequestURI = "/search/items?q=shoes&page=2"
	r.Host, r.RemoteAddr = "api.example.com", "203.0.113.9:4711"
	r.Header = http.Header{
		"Accept": {"*/*"}, "Accept-Encoding": {"gzip, br"}, "Accept-Language": {"en"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"},
		"X-Api-Key": {"k1"}, "Referer": {"https://shop.example.com/"},
	}
	return r
}

func rejecting() Config {
	c := before("http://127.0.0.1:1")
	c.Limit = func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	}
	return c
}

// BenchmarkReject is the cost of the gateway itself for a request that the limiter rejects at once.
func BenchmarkReject(b *testing.B) {
	g := create(b, rejecting())
	w, r := newNullFront(), benchRequest()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		g.ServeHTTP(w, r)
	}
}

// nullForwarder responds at once.
type nullForwarder struct{}

func (nullForwarder) Forward(_ context.Context, w http.ResponseWriter, _ *http.Request, _ upstream.Head) (upstream.Outcome, error) {
	w.WriteHeader(http.StatusOK)
	return upstream.Outcome{Status: http.StatusOK, Sent: true}, nil
}

func (nullForwarder) Close() error { return nil }

// BenchmarkSend is the cost of the gateway itself for a forwarded request, without the server and the forwarder.
func BenchmarkSend(b *testing.B) {
	for name, config := range map[string]func(c *Config){
		"plain":    func(*Config) {},
		"logging":  func(c *Config) { c.AccessLog = &AccessLog{Logger: quiet} },
		"observed": func(c *Config) { c.Observe = func(*Observation) {} },
	} {
		b.Run(name, func(b *testing.B) {
			c := before("http://127.0.0.1:1", "http://127.0.0.1:2")
			config(&c)
			g := create(b, c)
			for _, s := range g.routes.all[0].upstreams {
				s.forwarder = nullForwarder{}
			}
			w, r := newNullFront(), benchRequest()
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				g.ServeHTTP(w, r)
			}
		})
	}
}

// pooledBuffers saves a ReverseProxy its greatest cost.
type pooledBuffers struct{ sync.Pool }

func (p *pooledBuffers) Get() []byte {
	if b, ok := p.Pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pooledBuffers) Put(b []byte) { p.Pool.Put(&b) }

// BenchmarkProxy compares a whole request over the loopback interface with one through a tuned httputil.ReverseProxy,
// and with a direct one. Load and upstream run in the same process, so it understates the difference.
func BenchmarkProxy(b *testing.B) {
	up := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello, world") })
	target, err := url.Parse(up.URL)
	if err != nil {
		b.Fatal(err)
	}
	reverse := httputil.NewSingleHostReverseProxy(target)
	reverse.Transport = &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	reverse.BufferPool = new(pooledBuffers)
	ordinary := serve(b, reverse.ServeHTTP)
	ours := start(b, before(up.URL))
	for _, to := range []struct{ name, address string }{
		{"none", up.Listener.Addr().String()}, {"ReverseProxy", ordinary.Listener.Addr().String()}, {"gateway", addrOf(ours)},
	} {
		b.Run(to.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := net.Dial("tcp", to.address)
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				request := []byte(lines("GET /search/items?q=shoes HTTP/1.1", "Host: api.example.com", "User-Agent: bench", "Accept: */*"))
				buffer := make([]byte, 4096)
				for pb.Next() {
					if _, err := conn.Write(request); err != nil {
						b.Error(err)
						return
					}
					for n := 0; n < 12 || string(buffer[n-12:n]) != "hello, world"; {
						got, err := conn.Read(buffer[n:])
						if err != nil {
							b.Error(err)
							return
						}
						n += got
					}
				}
			})
		})
	}
}
