package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/downstream"
)

// A clientWriter writes the response to the client.
type clientWriter struct {
	front       front
	lines       downstream.ResponseWriter // front, if it accepts header lines; else nil
	direct      bool                      // headers of upstreams are set as lines too: the limiter reads none
	bounded     bool                      // front itself bounds how long a write may take
	deadlineSet time.Duration             // when the write deadline was set; 0 if there is none
}

// A front is the ResponseWriter of the server. Those of net/http have all these methods.
type front interface {
	http.ResponseWriter
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// asFront returns w as a front. For methods that w does not have itself, it uses the writer that w wraps.
func asFront(w http.ResponseWriter) front {
	if f, ok := w.(front); ok {
		return f
	}
	return wrappedFront{ResponseWriter: w, c: http.NewResponseController(w)}
}

// A wrappedFront is a ResponseWriter of other code, when another server calls Gateway.ServeHTTP.
type wrappedFront struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (w wrappedFront) FlushError() error                  { return w.c.Flush() }
func (w wrappedFront) SetReadDeadline(t time.Time) error  { return w.c.SetReadDeadline(t) }
func (w wrappedFront) SetWriteDeadline(t time.Time) error { return w.c.SetWriteDeadline(t) }
func (w wrappedFront) EnableFullDuplex() error            { return w.c.EnableFullDuplex() }
func (w wrappedFront) Unwrap() http.ResponseWriter        { return w.ResponseWriter }

// HeaderLines implements httplimit.ProxyWriter.
func (ex *exchange) HeaderLines() (buf []byte, ok bool) {
	if ex.writer.lines == nil {
		return nil, false
	}
	return ex.writer.lines.HeaderLines(), true
}

// SetHeaderLines implements httplimit.ProxyWriter. A limiter that calls it does not read Header afterwards.
func (ex *exchange) SetHeaderLines(lines []byte, replaced []string) {
	ex.writer.lines.SetHeaderLines(lines, replaced)
	ex.writer.direct = true
}

// TryAddHeaderLine adds a header line of an upstream, if the limiter does not read Header. It returns false if the line
// must be set in Header.
func (ex *exchange) TryAddHeaderLine(name, value string) bool {
	switch {
	case !ex.writer.direct, name == headerVia:
		return false
	case name == ex.g.idHeader:
		return true // replaced by the gateway's
	default:
		return ex.writer.lines.TryAddHeaderLine(name, value)
	}
}

// Unserved implements httplimit.ProxyWriter.
func (ex *exchange) Unserved() bool { return ex.forward.unsent }

// Identified implements httplimit.ProxyWriter.
func (ex *exchange) Identified(by *identity.Identifier) *identity.Attributes {
	if by != ex.g.identity || !ex.request.connectionPlain {
		return nil
	}
	return &ex.request.attributes
}

// Unwrap is for http.ResponseController.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.writer.front }

// Header returns the header of the response.
func (ex *exchange) Header() http.Header { return ex.writer.front.Header() }

var closeValue = []string{"close"}

// WriteHeader sends the header of the response, with the gateway's own fields.
func (ex *exchange) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		ex.setWriteDeadline()
		ex.writer.front.WriteHeader(code)
		ex.clearWriteDeadline()
		return
	}
	if !ex.response.wroteHeader {
		ex.response.wroteHeader, ex.response.status = true, code
		ex.addHeader()
	}
	if !ex.http2 { // HTTP/2 buffers the header until more is written
		ex.setWriteDeadline()
	}
	ex.writer.front.WriteHeader(code)
}

// addHeader adds the gateway's own fields to the header of the response.
func (ex *exchange) addHeader() {
	h, id := ex.writer.front.Header(), ex.request.id
	switch {
	case id == nil:
	case ex.writer.direct && ex.writer.lines.TryAddHeaderLine(ex.g.idHeader, id[0]):
		delete(h, ex.g.idHeader)
	default:
		h[ex.g.idHeader] = id
	}
	if via := ex.g.via; via != nil {
		h[headerVia] = append(h[headerVia], via...)
	}
	if ex.g.draining.Load() {
		h["Connection"] = closeValue // with HTTP/2 the server sends GOAWAY instead
	}
	if ex.body != nil && !ex.body.responseBegan() && !ex.http2 {
		// If the body is read while the response is sent, net/http does not notice that its end was never reached, and
		// would take the rest of it for the next request.
		h["Connection"] = closeValue
	}
}

func (ex *exchange) Write(p []byte) (int, error) {
	ex.beforeWrite(len(p))
	n, err := ex.writer.front.Write(p)
	ex.response.sent += int64(n)
	ex.clearWriteDeadline()
	return n, err
}

// WriteString implements io.StringWriter.
func (ex *exchange) WriteString(s string) (int, error) {
	ex.beforeWrite(len(s))
	n, err := io.WriteString(ex.writer.front, s)
	ex.response.sent += int64(n)
	ex.clearWriteDeadline()
	return n, err
}

// http2Buffer is how much of a response net/http buffers in HTTP/2 before it sends any.
const http2Buffer = 4 << 10

// beforeWrite prepares for n bytes of the body.
func (ex *exchange) beforeWrite(n int) {
	if !ex.response.wroteHeader {
		ex.WriteHeader(http.StatusOK)
	}
	if !ex.http2 || ex.response.flushed || ex.response.sent+int64(n) > http2Buffer { // else they are only buffered
		ex.setWriteDeadline()
	}
}

// Flush implements http.Flusher.
func (ex *exchange) Flush() { _ = ex.FlushError() }

// FlushError is for http.ResponseController.
func (ex *exchange) FlushError() error {
	if !ex.response.wroteHeader {
		ex.WriteHeader(http.StatusOK)
	}
	ex.setWriteDeadline()
	ex.response.flushed = true
	err := ex.writer.front.FlushError()
	ex.clearWriteDeadline()
	return err
}

// Hijack implements http.Hijacker.
func (ex *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(ex.writer.front).Hijack()
	if err == nil {
		ex.response.hijacked = true
	}
	return conn, buffered, err
}

// setWriteDeadline bounds how long a write to the client may block. A deadline serves for several writes, as long as
// most of it is left.
func (ex *exchange) setWriteDeadline() {
	w := &ex.writer
	if w.bounded {
		return
	}
	now := ex.g.clock.Now()
	timeout := ex.g.config.WriteTimeout
	if w.deadlineSet != 0 && now-w.deadlineSet < timeout/4 {
		return
	}
	w.deadlineSet = now
	if err := w.front.SetWriteDeadline(ex.g.clock.at(now + timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.deadlineSet = 0 // the connection is closed, and writing will fail
	}
}

// clearWriteDeadline removes the deadline of an HTTP/2 stream, because the upstream may send nothing for a while. In
// HTTP/1.1 a deadline affects only writes, so it can stay.
func (ex *exchange) clearWriteDeadline() {
	w := &ex.writer
	if !ex.http2 || w.deadlineSet == 0 {
		return
	}
	w.deadlineSet = 0
	_ = w.front.SetWriteDeadline(time.Time{}) // fails only if the connection is closed
}
