package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/server/gateway"
)

// handlers are the fronts that are implemented in this package, by name. Each is created for an upstream.
var handlers = map[string]func(upstream string) http.Handler{
	"reverse-proxy": newReverseProxy,
	"bare":          newBare,
	"bare-429":      newBareRefusal,
}

// openHere starts one of the handlers in a new process.
func openHere(name string) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		return s.StartChild(ctx, s.FrontCore, harness.ChildFlags{
			Mode: harness.ChildFront, Contender: name,
			Target: s.Upstream,
		})
	}
}

// RunFront is the main function of that process. It prints its address, and serves until in ends.
func RunFront(name, upstream string, in io.Reader, out *json.Encoder) error {
	if name == openGatewayName {
		return runOpenGateway(upstream, in, out)
	}
	handler, ok := handlers[name]
	if !ok {
		return fmt.Errorf("no front is named %q", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(upstream), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := out.Encode(site.Listening{Address: l.Addr().String()}); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // however it ends, it ends
	_ = server.Close()             // open connections are not served any more
	<-served
	return nil
}

// openGatewayName is headgate's gateway without a limiter.
const openGatewayName = "headgate-open"

// runOpenGateway runs the gateway as the headgate program does, but without a limiter.
func runOpenGateway(upstream string, in io.Reader, out *json.Encoder) error {
	g, err := gateway.New(gateway.Config{
		Listeners: []gateway.Listener{{Address: "127.0.0.1:0"}},
		Routes:    []gateway.Route{{Upstreams: []gateway.Upstream{{URL: "http://" + upstream}}}},
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	if err := g.Listen(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx) }()
	err = out.Encode(site.Listening{Address: g.Addrs()[0].String()})
	if err == nil {
		_, _ = io.Copy(io.Discard, in) // however it ends, it ends
	}
	stop()
	return errors.Join(err, <-served)
}

// idleConnections is the number of idle connections to the upstream that a proxy keeps.
const idleConnections = 1024

// newReverseProxy returns the standard library's proxy with the fastest settings: enough idle connections for all
// clients, reused buffers, no compression and no logs.
func newReverseProxy(upstream string) http.Handler {
	target := &url.URL{Scheme: "http", Host: upstream}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost: idleConnections,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
		BufferPool: &bufferPool{},
		ErrorLog:   log.New(io.Discard, "", 0),
	}
}

// A bufferPool has the buffers through which bodies are copied.
type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[bufferSize]byte); ok {
		return b[:]
	}
	return make([]byte, bufferSize)
}

func (p *bufferPool) Put(b []byte) { p.pool.Put((*[bufferSize]byte)(b)) }

// newBare responds like the upstream, without a proxy. Nothing that uses net/http can serve more.
func newBare(string) http.Handler {
	length, body := []string{strconv.Itoa(len(site.UpstreamBody))}, []byte(site.UpstreamBody)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = []string{"application/json"}
		h["Content-Length"] = length
		_, _ = w.Write(body)
	})
}

// newBareRefusal only responds with status 429.
func newBareRefusal(string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
}
