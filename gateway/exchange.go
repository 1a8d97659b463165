package gateway

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/gateway/downstream"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
)

// An exchange is a request and its answer. It is the http.ResponseWriter that the limiter and the legs get, by which the
// handlers on the inside find what those on the outside know, without an allocation.
type exchange struct {
	g      *Gateway
	front  front
	lines  downstream.ResponseWriter // the front, if it takes header lines as they are sent; else nil
	direct bool                      // what upstreams say goes there too, as nobody reads the header of the answer
	bounds bool                      // the front itself bounds how long a client may take nothing of what is sent to him
	began  time.Duration             // by the gateway's clock; 0 if nobody wants to know
	http2  bool
	stripe uint32 // of the figures, on which this request counts

	who       identity.Attributes
	client    netip.Addr
	fromProxy bool
	plain     bool // Connection names no header, so that nothing was read that is gone now
	hops      hopByHop
	host      string // canonical
	path      string // canonical
	target    string // what stands in the request line that is sent on
	id        []string
	fields    fields
	route     *route
	body      *body // nil if the request has none, or nobody has asked for it

	upstream *upstreamServer // the last that was asked
	retries  int
	fault    error // why the request was not served, for the log
	unsent   bool  // nothing of it has reached an upstream
	complete bool  // no handler has panicked
	wrote    bool  // the header of the answer
	hijacked bool
	tunnel   *tunnel // if it was upgraded
	status   int
	sent     int64
	flushed  bool

	observation Observation
	armed       time.Duration // when the deadline for writing was set; 0 if there is none
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

// exchangeOf returns the exchange below the writers that a limiter has put around it.
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

// A front is what the server in front gives us to write to. Those of net/http are all like that.
type front interface {
	http.ResponseWriter
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// HeaderLines returns room for lines of the header, if the front takes them.
func (ex *exchange) HeaderLines() (room []byte, ok bool) {
	if ex.lines == nil {
		return nil, false
	}
	return ex.lines.HeaderLines()
}

// SetHeaderLines says them. Who does so does not read the header of the answer, or it would be a limiter like any other.
func (ex *exchange) SetHeaderLines(lines []byte, instead []string) {
	ex.lines.SetHeaderLines(lines, instead)
	ex.direct = true
}

// TakeHeaderLine takes a line of an upstream's header, if nobody wants it in Header.
func (ex *exchange) TakeHeaderLine(name, value string) bool {
	switch {
	case !ex.direct, name == headerVia:
		return false
	case name == ex.g.idHeader:
		return true // which is ours to say
	default:
		return ex.lines.TakeHeaderLine(name, value)
	}
}

// Kept is the front's, for a limiter that goes by what the gateway has found out of who is asking: that is the same if the
// request is, as long as nobody has changed it in between.
func (ex *exchange) Kept() (kept *any, repeats bool) {
	if ex.lines == nil || !ex.plain || !ex.g.keeps {
		return nil, false
	}
	return ex.lines.Kept()
}

// Unserved reports whether the request was let pass, but nothing of it has reached an upstream: see httplimit.ProxyWriter.
func (ex *exchange) Unserved() bool { return ex.unsent }

// Identified returns what the gateway knows already of who is asking, if it is found in the same way; else nil.
func (ex *exchange) Identified(by *identity.Identifier) *identity.Attributes {
	if by != ex.g.identity || !ex.plain {
		return nil
	}
	return &ex.who
}

// frontOf returns w as a front. Where w cannot do it itself, what it wraps may.
func frontOf(w http.ResponseWriter) front {
	if f, ok := w.(front); ok {
		return f
	}
	return wrapped{ResponseWriter: w, c: http.NewResponseController(w)}
}

// wrapped is a ResponseWriter of somebody else, as when the gateway's Handler is used without its server.
type wrapped struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (w wrapped) FlushError() error                  { return w.c.Flush() }
func (w wrapped) SetReadDeadline(t time.Time) error  { return w.c.SetReadDeadline(t) }
func (w wrapped) SetWriteDeadline(t time.Time) error { return w.c.SetWriteDeadline(t) }
func (w wrapped) EnableFullDuplex() error            { return w.c.EnableFullDuplex() }
func (w wrapped) Unwrap() http.ResponseWriter        { return w.ResponseWriter }

// begin makes ex that of a request.
func (ex *exchange) begin(g *Gateway, w http.ResponseWriter, r *http.Request) {
	ex.g, ex.front, ex.http2 = g, frontOf(w), r.ProtoMajor >= 2
	if lines, ok := w.(downstream.ResponseWriter); ok {
		ex.lines, ex.bounds = lines, lines.BoundsWrites()
		ex.direct = g.config.Limit == nil
	}
	if g.timed {
		ex.began = g.now()
	}
	ex.stripe = rand.Uint32()
	g.figures.began.add(ex.stripe)
}

// end is called when the handlers are done, or panic.
func (ex *exchange) end(r *http.Request) {
	if ex.complete && !ex.hijacked {
		if !ex.wrote {
			ex.WriteHeader(http.StatusOK)
		}
		if ex.flushed || ex.armed == 0 || ex.http2 {
			ex.arm() // for what the server still holds back; otherwise it was written just now
		}
	}
	if ex.body != nil {
		ex.body.finish()
		if r.Body == io.ReadCloser(ex.body) {
			r.Body = ex.body.source // by which the server sees how much of it was read
		}
	}
	ex.g.over(ex, r)
	if ex.tunnel != nil {
		ex.g.tunnels.remove(ex.tunnel)
	}
	if ex.complete { // or somebody may still hold it
		ex.reset()
		exchanges.Put(ex)
	}
}

// reset makes ex ready for another request. What that sets before it is read stays: to write to memory that has pointers
// costs more than it seems.
func (ex *exchange) reset() {
	ex.front, ex.lines, ex.direct, ex.bounds, ex.plain = nil, nil, false, false, false
	ex.route, ex.body, ex.upstream, ex.fault, ex.id, ex.tunnel = nil, nil, nil, nil, nil, nil
	ex.host, ex.path, ex.target, ex.hops = "", "", "", hopByHop{}
	ex.client, ex.fromProxy = netip.Addr{}, false
	ex.fields.n, ex.retries, ex.unsent = 0, 0, false
	ex.complete, ex.wrote, ex.hijacked, ex.flushed = false, false, false, false
	ex.began, ex.status, ex.sent, ex.armed = 0, 0, 0, 0
}

// Unwrap is for http.ResponseController.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.front }

// Header returns the header of the answer.
func (ex *exchange) Header() http.Header { return ex.front.Header() }

var closeValue = []string{"close"}

// WriteHeader sends the header of the answer, with what we add to it.
func (ex *exchange) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		ex.arm()
		ex.front.WriteHeader(code)
		ex.disarm()
		return
	}
	if !ex.wrote {
		ex.wrote, ex.status = true, code
		h := ex.front.Header()
		switch {
		case ex.id == nil:
		case ex.direct && ex.lines.TakeHeaderLine(ex.g.idHeader, ex.id[0]):
			delete(h, ex.g.idHeader)
		default:
			h[ex.g.idHeader] = ex.id
		}
		if via := ex.g.via; via != nil {
			h[headerVia] = append(h[headerVia], via...)
		}
		if ex.g.draining.Load() {
			h["Connection"] = closeValue // in HTTP/2 the server says GOAWAY instead
		}
		if ex.body != nil && !ex.body.begun() && !ex.http2 {
			// Once a body is read while its answer is sent, net/http does not notice that its end was never found, and would
			// take what is left of it for the next request.
			h["Connection"] = closeValue
		}
	}
	if !ex.http2 { // which keeps it until there is more
		ex.arm()
	}
	ex.front.WriteHeader(code)
}

func (ex *exchange) Write(p []byte) (int, error) {
	ex.beforeWrite(len(p))
	n, err := ex.front.Write(p)
	ex.sent += int64(n)
	ex.disarm()
	return n, err
}

// WriteString is Write.
func (ex *exchange) WriteString(s string) (int, error) {
	ex.beforeWrite(len(s))
	n, err := io.WriteString(ex.front, s)
	ex.sent += int64(n)
	ex.disarm()
	return n, err
}

// http2Buffer is how much of an answer net/http collects in HTTP/2 before it sends any.
const http2Buffer = 4 << 10

// beforeWrite makes ready for so many bytes of a body.
func (ex *exchange) beforeWrite(n int) {
	if !ex.wrote {
		ex.WriteHeader(http.StatusOK)
	}
	if !ex.http2 || ex.flushed || ex.sent+int64(n) > http2Buffer { // otherwise nobody waits for the client
		ex.arm()
	}
}

// Flush sends what is there.
func (ex *exchange) Flush() { _ = ex.FlushError() }

// FlushError is for http.ResponseController.
func (ex *exchange) FlushError() error {
	if !ex.wrote {
		ex.WriteHeader(http.StatusOK)
	}
	ex.arm()
	ex.flushed = true
	err := ex.front.FlushError()
	ex.disarm()
	return err
}

// Hijack gives away the connection.
func (ex *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(ex.front).Hijack()
	if err == nil {
		ex.hijacked = true
	}
	return conn, buffered, err
}

// arm bounds how long the client may take nothing of what is sent to him. A deadline is good for several writes, as long as
// most of it is left.
func (ex *exchange) arm() {
	if ex.bounds {
		return
	}
	now := ex.g.now()
	timeout := ex.g.config.WriteTimeout
	if ex.armed != 0 && now-ex.armed < timeout/4 {
		return
	}
	ex.armed = now
	if err := ex.front.SetWriteDeadline(ex.g.epoch.Add(now + timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		ex.armed = 0 // the connection is gone, and writing will say so
	}
}

// disarm ends that, for the upstream may be silent now. In HTTP/1.1 a deadline matters to who writes only, so it can stay.
func (ex *exchange) disarm() {
	if !ex.http2 || ex.armed == 0 {
		return
	}
	ex.armed = 0
	_ = ex.front.SetWriteDeadline(time.Time{}) // as in arm
}
