package gateway

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/downstream"
	"github.com/headgate/headgate/server/gateway/internal/tunnel"
	"github.com/headgate/headgate/server/gateway/upstream"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// An exchange is a request and its response. It is also the http.ResponseWriter of the limiter and the forwarders, so
// that proxy can find the exchange of its request without an allocation.
type exchange struct {
	g        *Gateway
	began    time.Duration // by Gateway.clock
	stripe   uint32        // the stripe of each stripedCounter that this exchange uses
	http2    bool
	writer   clientWriter
	request  requestInfo
	route    *route // nil if there is none
	body     *body  // nil if the request has no body, or is not forwarded
	forward  forwarding
	response responseState
	span     traces.Span // zero without a Tracer

	observation Observation
}

// requestInfo describes the request.
type requestInfo struct {
	attributes      identity.Attributes
	client          netip.Addr
	fromProxy       bool // a trusted proxy sent the request
	connectionPlain bool // Connection names no other header, so no header behind an attribute was removed
	removed         removedHeaders
	host            string // canonical
	path            string // canonical
	target          string // of the request line to the upstream
	id              []string
}

// forwarding describes the attempts to reach an upstream.
type forwarding struct {
	fields       []upstream.Field // headers that the gateway sets, instead of changing those of the request
	upstream     *upstreamServer  // of the last attempt
	retries      int
	upstreamTime time.Duration  // the time that upstreams took
	unsent       bool           // no upstream has received any part of the request
	fault        error          // why the request was not served, for the log
	tunnel       *tunnel.Tunnel // nil unless the connection was upgraded
}

// responseState is the progress of the response.
type responseState struct {
	status      int
	sent        int64 // bytes of the body
	wroteHeader bool  // the header was written
	flushed     bool
	hijacked    bool
	complete    bool // the handler has returned without a panic
}

var (
	_ httplimit.ProxyWriter = (*exchange)(nil)
	_ http.Flusher          = (*exchange)(nil)
	_ http.Hijacker         = (*exchange)(nil)
	_ io.StringWriter       = (*exchange)(nil)
)

var exchanges = sync.Pool{New: func() any { return &exchange{stripe: rand.Uint32()} }}

// An unwrapper is a ResponseWriter that wraps another one. http.ResponseController uses the same method.
type unwrapper interface{ Unwrap() http.ResponseWriter }

// exchangeOf returns the exchange that the ResponseWriters of a limiter wrap, or nil if they wrap none.
func exchangeOf(w http.ResponseWriter) *exchange {
	for {
		switch x := w.(type) {
		case *exchange:
			return x
		case unwrapper:
			w = x.Unwrap()
		default:
			return nil
		}
	}
}

// begin prepares ex for a request.
func (ex *exchange) begin(g *Gateway, w http.ResponseWriter, r *http.Request) {
	ex.g, ex.writer.inner, ex.http2 = g, asServerWriter(w), r.ProtoMajor >= 2
	if lines, ok := w.(downstream.ResponseWriter); ok {
		ex.writer.lines, ex.writer.setsTimeout = lines, lines.BoundsWrites()
		ex.writer.direct = g.config.Limit == nil
	}
	ex.began = g.clock.Now()
	g.counters.began.add(ex.stripe)
}

// end is called when the handlers have returned or panicked.
func (ex *exchange) end(r *http.Request) {
	if ex.response.complete && !ex.response.hijacked {
		if !ex.response.wroteHeader {
			ex.WriteHeader(http.StatusOK)
		}
		if ex.response.flushed || ex.writer.deadlineSet == 0 || ex.http2 {
			ex.setWriteDeadline() // for bytes that the server still buffers
		}
	}
	if ex.body != nil {
		ex.body.finish()
		r.Body = ex.body.source // the server's own body, which knows how much was read
	}
	ex.g.record(ex, r)
	if ex.g.config.Tracer != nil {
		ex.endSpan()
	}
	if ex.forward.tunnel != nil {
		ex.g.tunnels.Remove(ex.forward.tunnel)
	}
	if ex.response.complete { // after a panic, another goroutine may still use ex
		ex.reset()
		exchanges.Put(ex)
	}
}

// reset prepares ex for reuse. It does not clear fields that are set before they are read, because clearing memory with
// pointers is expensive.
func (ex *exchange) reset() {
	ex.route, ex.body = nil, nil
	ex.writer = clientWriter{}
	ex.response = responseState{}
	r, f := &ex.request, &ex.forward
	r.client, r.fromProxy, r.connectionPlain, r.removed, r.id = netip.Addr{}, false, false, removedHeaders{}, nil
	r.host, r.path, r.target = "", "", ""
	*f = forwarding{fields: f.fields[:0]}
}
