package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A writer adds the middleware's fields to the response of the next handler just before its header is sent. The next
// handler does not get the writer itself, but the result of wrap, which has the same optional interfaces as inner:
// handlers test a ResponseWriter for these interfaces.
type writer struct {
	inner      http.ResponseWriter
	values     fieldValues
	headerSent bool
}

// addFields adds the fields to the header, unless it has been sent already.
func (w *writer) addFields() {
	if !w.headerSent {
		w.headerSent = true
		w.values.setIn(w.inner.Header())
	}
}

func (w *writer) Header() http.Header { return w.inner.Header() }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.inner }

func (w *writer) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		w.addFields()
	}
	w.inner.WriteHeader(code)
}

func (w *writer) Write(p []byte) (int, error) {
	w.addFields()
	return w.inner.Write(p)
}

func (w *writer) WriteString(s string) (int, error) {
	w.addFields()
	return io.WriteString(w.inner, s)
}

// FlushError is for http.ResponseController, which knows whether the inner writer can flush.
func (w *writer) FlushError() error {
	w.addFields()
	return http.NewResponseController(w.inner).Flush()
}

// flush implements http.Flusher.
func (w *writer) flush() {
	w.addFields()
	w.inner.(http.Flusher).Flush()
}

func (w *writer) readFrom(src io.Reader) (int64, error) {
	w.addFields()
	return io.Copy(w.inner, src)
}

// A closeNotifier is the deprecated http.CloseNotifier, which frameworks still use.
type closeNotifier interface{ CloseNotify() <-chan bool }

func (w *writer) closeNotify() <-chan bool {
	if n, ok := w.inner.(closeNotifier); ok {
		return n.CloseNotify()
	}
	return make(chan bool, 1) // never receives
}

// A flushWriter wraps a writer that can flush, but can neither hijack nor push.
type flushWriter struct{ *writer }

// An http1Writer wraps a writer with the optional interfaces of net/http's writer for HTTP/1.1.
type http1Writer struct{ *writer }

// An http2Writer wraps a writer with the optional interfaces of net/http's writer for HTTP/2.
type http2Writer struct{ *writer }

func (w flushWriter) Flush() { w.flush() }

func (w http1Writer) Flush()                                { w.flush() }
func (w http1Writer) ReadFrom(src io.Reader) (int64, error) { return w.readFrom(src) }
func (w http1Writer) CloseNotify() <-chan bool              { return w.closeNotify() }

// Hijack implements http.Hijacker.
func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.inner.(http.Hijacker).Hijack()
}

func (w http2Writer) Flush()                   { w.flush() }
func (w http2Writer) CloseNotify() <-chan bool { return w.closeNotify() }

// Push implements http.Pusher.
func (w http2Writer) Push(target string, opts *http.PushOptions) error {
	return w.inner.(http.Pusher).Push(target, opts)
}

var (
	_ http.Flusher  = flushWriter{}
	_ http.Flusher  = http1Writer{}
	_ http.Hijacker = http1Writer{}
	_ io.ReaderFrom = http1Writer{}
	_ http.Flusher  = http2Writer{}
	_ http.Pusher   = http2Writer{}
)

// wrap returns the writer for the next handler. It has the same optional interfaces as the inner writer.
func (w *writer) wrap() http.ResponseWriter {
	_, flushes := w.inner.(http.Flusher)
	_, hijacks := w.inner.(http.Hijacker)
	_, pushes := w.inner.(http.Pusher)
	switch {
	case flushes && hijacks:
		return http1Writer{w}
	case flushes && pushes:
		return http2Writer{w}
	case flushes:
		return flushWriter{w}
	default:
		return w
	}
}
