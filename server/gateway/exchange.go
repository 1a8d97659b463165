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

// An exchange is a request and its response. It is also the http.ResponseWriter for the limiter and the forwarders:
// handlers behind the limiter get back to the exchange through it, which needs no allocation.
type exchange struct {
	g        *Gateway
	began    time.Duration
	stripe   uint32 // which stripe of the counters it uses
	http2    bool
	writer   clientWriter
	request  requestInfo
	route    *route // nil if there is none
	body     *body  // nil if the request has none, or is not forwarded
	forward  forwarding
	response responseState
	span     traces.Span // zero without a Tracer

	observation Observation
}

// requestInfo describes the request.
type requestInfo struct {
	attributes      identity.Attributes
	client          netip.Addr
	fromProxy       bool // a trusted proxy sent it
	connectionPlain bool // Connection names no header, so no header that attributes were read from was removed
	removed         removedHeaders
	host            string // canonical
	path            string // canonical
	target          string // of the request line to the upstream
	id              []string
}

// forwarding describes the attempts to reach an upstream.
type forwarding struct {
	fields   []upstream.Field // headers that the gateway sets; the request's own header stays as the limiter has seen it
	upstream *upstreamServer  // of the last attempt
	retries  int
	took     time.Duration  // how long upstreams took
	unsent   bool           // no upstream has received any of the request
	fault    error          // why the request was not served, for the log
	tunnel   *tunnel.Tunnel // if the connection was upgraded
}

// responseState is the progress of the response.
type responseState struct {
	status      int
	sent        int64 // bytes of the body
	wroteHeader bool  // the header
	flushed     bool
	hijacked    bool
	complete    bool // no handler has panicked
}

var (
	_ httplimit.ProxyWriter = (*exchange)(nil)
	_ http.Flusher          = (*exchange)(nil)
	_ http.Hijacker         = (*exchange)(nil)
	_ io.StringWriter       = (*exchange)(nil)
)

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// An unwrapper is a ResponseWriter around another one, as http.ResponseController knows it.
type unwrapper interface{ Unwrap() http.ResponseWriter }

// exchangeOf returns the exchange below the ResponseWriters of a limiter, or nil.
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
	ex.g, ex.writer.front, ex.http2 = g, asFront(w), r.ProtoMajor >= 2
	if lines, ok := w.(downstream.ResponseWriter); ok {
		ex.writer.lines, ex.writer.bounded = lines, lines.BoundsWrites()
		ex.writer.direct = g.config.Limit == nil
	}
	ex.began = g.clock.Now()
	ex.stripe = rand.Uint32()
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
		r.Body = ex.body.source // the server's own, which knows how much was read
	}
	ex.g.record(ex, r)
	if ex.g.config.Tracer != nil {
		ex.endSpan()
	}
	if ex.forward.tunnel != nil {
		ex.g.tunnels.Remove(ex.forward.tunnel)
	}
	if ex.response.complete { // else another goroutine may still use ex
		ex.reset()
		exchanges.Put(ex)
	}
}

// reset prepares ex for reuse. It leaves fields that are set before they are read: clearing memory with pointers is
// expensive.
func (ex *exchange) reset() {
	ex.route, ex.body = nil, nil
	ex.writer = clientWriter{}
	ex.response = responseState{}
	r, f := &ex.request, &ex.forward
	r.client, r.fromProxy, r.connectionPlain, r.removed, r.id = netip.Addr{}, false, false, removedHeaders{}, nil
	r.host, r.path, r.target = "", "", ""
	*f = forwarding{fields: f.fields[:0]}
}
