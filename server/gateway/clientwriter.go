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
	inner       serverWriter              // the server's ResponseWriter
	lines       downstream.ResponseWriter // inner, if it accepts header lines; otherwise nil
	direct      bool                      // upstream headers go to lines, because the limiter does not read Header
	setsTimeout bool                      // inner itself limits the time of each write
	deadlineSet time.Duration             // when the write deadline was set; 0 if there is none
}

// A serverWriter is a ResponseWriter with the optional methods that the gateway needs. Those of net/http and package
// downstream have all of them.
type serverWriter interface {
	http.ResponseWriter
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// asServerWriter returns w as a serverWriter. If w lacks a method, http.ResponseController finds it in the writer that
// w wraps.
func asServerWriter(w http.ResponseWriter) serverWriter {
	if f, ok := w.(serverWriter); ok {
		return f
	}
	return wrappedWriter{ResponseWriter: w, c: http.NewResponseController(w)}
}

// A wrappedWriter adapts a ResponseWriter that lacks some methods of serverWriter. Middleware around Gateway.ServeHTTP
// may pass such a writer.
type wrappedWriter struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (w wrappedWriter) FlushError() error                  { return w.c.Flush() }
func (w wrappedWriter) SetReadDeadline(t time.Time) error  { return w.c.SetReadDeadline(t) }
func (w wrappedWriter) SetWriteDeadline(t time.Time) error { return w.c.SetWriteDeadline(t) }
func (w wrappedWriter) EnableFullDuplex() error            { return w.c.EnableFullDuplex() }
func (w wrappedWriter) Unwrap() http.ResponseWriter        { return w.ResponseWriter }

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

// TryAddHeaderLine adds a header line of an upstream if the limiter does not read Header. Otherwise it returns false,
// and the caller must set the line in Header.
func (ex *exchange) TryAddHeaderLine(name, value string) bool {
	switch {
	case !ex.writer.direct, name == headerVia:
		return false
	case name == ex.g.idHeader:
		return true // the upstream's id is dropped, because addHeader sets the gateway's id
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
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.writer.inner }

// Header returns the header of the response.
func (ex *exchange) Header() http.Header { return ex.writer.inner.Header() }

var closeValue = []string{"close"}

// WriteHeader sends the header of the response, with the gateway's own fields.
func (ex *exchange) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		ex.setWriteDeadline()
		ex.writer.inner.WriteHeader(code)
		ex.clearWriteDeadline()
		return
	}
	if !ex.response.wroteHeader {
		ex.response.wroteHeader, ex.response.status = true, code
		ex.addHeader()
	}
	if !ex.http2 { // in HTTP/2, WriteHeader only buffers the header
		ex.setWriteDeadline()
	}
	ex.writer.inner.WriteHeader(code)
}

// addHeader adds the gateway's own fields to the header of the response.
func (ex *exchange) addHeader() {
	h, id := ex.writer.inner.Header(), ex.request.id
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
		// The body is still being read while the response is sent. In this case, net/http does not notice if the end of the
		// body is never read, and would parse the rest of the body as the next request.
		h["Connection"] = closeValue
	}
}

func (ex *exchange) Write(p []byte) (int, error) {
	ex.beforeWrite(len(p))
	n, err := ex.writer.inner.Write(p)
	ex.response.sent += int64(n)
	ex.clearWriteDeadline()
	return n, err
}

// WriteString implements io.StringWriter.
func (ex *exchange) WriteString(s string) (int, error) {
	ex.beforeWrite(len(s))
	n, err := io.WriteString(ex.writer.inner, s)
	ex.response.sent += int64(n)
	ex.clearWriteDeadline()
	return n, err
}

// http2Buffer is the number of body bytes that net/http buffers in HTTP/2 before it sends any.
const http2Buffer = 4 << 10

// beforeWrite sends the header if necessary, and sets the deadline for writing n bytes of the body.
func (ex *exchange) beforeWrite(n int) {
	if !ex.response.wroteHeader {
		ex.WriteHeader(http.StatusOK)
	}
	onlyBuffered := ex.http2 && !ex.response.flushed && ex.response.sent+int64(n) <= http2Buffer
	if !onlyBuffered {
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
	err := ex.writer.inner.FlushError()
	ex.clearWriteDeadline()
	return err
}

// Hijack implements http.Hijacker.
func (ex *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(ex.writer.inner).Hijack()
	if err == nil {
		ex.response.hijacked = true
	}
	return conn, buffered, err
}

// setWriteDeadline limits how long a write to the client may block. If most of the time of the previous deadline is
// left, it keeps that deadline, because setting one for each write would cost too much.
func (ex *exchange) setWriteDeadline() {
	w := &ex.writer
	if w.setsTimeout {
		return
	}
	now := ex.g.clock.Now()
	timeout := ex.g.config.WriteTimeout
	if w.deadlineSet != 0 && now-w.deadlineSet < timeout/4 {
		return
	}
	w.deadlineSet = now
	if err := w.inner.SetWriteDeadline(ex.g.clock.at(now + timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.deadlineSet = 0 // the connection is closed, and writing will fail
	}
}

// clearWriteDeadline removes the write deadline of an HTTP/2 stream. Otherwise the stream would be reset if the
// upstream sends nothing for a while. In HTTP/1.1 a deadline affects only writes, so it can stay.
func (ex *exchange) clearWriteDeadline() {
	w := &ex.writer
	if !ex.http2 || w.deadlineSet == 0 {
		return
	}
	w.deadlineSet = 0
	_ = w.inner.SetWriteDeadline(time.Time{}) // fails only if the connection is closed
}
