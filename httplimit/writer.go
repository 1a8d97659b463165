package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A writer adds our fields to the response of the next handler when its header is sent, and passes everything else on.
// Handlers test for optional interfaces of a ResponseWriter, so wrap chooses a type with the right combination.
type writer struct {
	under  http.ResponseWriter
	values fieldValues
	sent   bool // the header is sent
}

// addFields adds the fields to the header, unless that is sent already.
func (w *writer) addFields() {
	if !w.sent {
		w.sent = true
		w.values.setIn(w.under.Header())
	}
}

func (w *writer) Header() http.Header { return w.under.Header() }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.under }

func (w *writer) WriteHeader(code int) {
	if code >= 200 || code == http.StatusSwitchingProtocols {
		w.addFields()
	}
	w.under.WriteHeader(code)
}

func (w *writer) Write(p []byte) (int, error) {
	w.addFields()
	return w.under.Write(p)
}

func (w *writer) WriteString(s string) (int, error) {
	w.addFields()
	return io.WriteString(w.under, s)
}

// FlushError is for http.ResponseController, which knows the capabilities of the writer below.
func (w *writer) FlushError() error {
	w.addFields()
	return http.NewResponseController(w.under).Flush()
}

// flush implements http.Flusher.
func (w *writer) flush() {
	w.addFields()
	w.under.(http.Flusher).Flush()
}

func (w *writer) readFrom(src io.Reader) (int64, error) {
	w.addFields()
	return io.Copy(w.under, src)
}

// A closeNotifier is the deprecated http.CloseNotifier, which frameworks still use.
type closeNotifier interface{ CloseNotify() <-chan bool }

func (w *writer) closeNotify() <-chan bool {
	if n, ok := w.under.(closeNotifier); ok {
		return n.CloseNotify()
	}
	return make(chan bool, 1) // never
}

// flushWriter is for a writer that can flush.
type flushWriter struct{ *writer }

// http1Writer is for HTTP/1.1.
type http1Writer struct{ *writer }

// http2Writer is for HTTP/2.
type http2Writer struct{ *writer }

func (w flushWriter) Flush() { w.flush() }

func (w http1Writer) Flush()                                { w.flush() }
func (w http1Writer) ReadFrom(src io.Reader) (int64, error) { return w.readFrom(src) }
func (w http1Writer) CloseNotify() <-chan bool              { return w.closeNotify() }

// Hijack implements http.Hijacker.
func (w http1Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.under.(http.Hijacker).Hijack()
}

func (w http2Writer) Flush()                   { w.flush() }
func (w http2Writer) CloseNotify() <-chan bool { return w.closeNotify() }

// Push implements http.Pusher.
func (w http2Writer) Push(target string, opts *http.PushOptions) error {
	return w.under.(http.Pusher).Push(target, opts)
}

var (
	_ http.Flusher  = flushWriter{}
	_ http.Flusher  = http1Writer{}
	_ http.Hijacker = http1Writer{}
	_ io.ReaderFrom = http1Writer{}
	_ http.Flusher  = http2Writer{}
	_ http.Pusher   = http2Writer{}
)

// wrap returns the writer for the next handler: one with exactly the optional interfaces of the writer below.
func (w *writer) wrap() http.ResponseWriter {
	_, flushes := w.under.(http.Flusher)
	_, hijacks := w.under.(http.Hijacker)
	_, pushes := w.under.(http.Pusher)
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
