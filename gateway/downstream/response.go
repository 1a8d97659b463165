package downstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
)

// A response is the answer to a request. It is used again for others on the same connection.
type response struct {
	conn   *conn
	header http.Header
	names  []headerName // of the header, in their order
	out    []byte       // what has not been sent yet

	head     bool // the method is HEAD
	wrote    bool // the header is complete, as far as the handler has a say
	framed   bool // it says how long the body is, and is complete in out, or sent
	sent     bool // some of the answer is
	chunked  bool
	bodyless bool // by the status
	closes   bool // the connection ends with this answer
	hijacked bool
	typed    bool // no Content-Type is to be found out
	dated    bool // there is a Date among the lines
	status   int
	body     int   // where in out the body begins, as long as it is not framed
	length   int64 // that the handler has said; −1 if it has not
	written  int64
	lines    []byte   // of the header, ready
	instead  []string // the names of headers that are not sent since there are lines
	trailers []string // that the handler has announced
	bounds   bounds   // of time
	bounded  bool     // the connection has a deadline for writing
	err      error    // of writing
}

// bounds are how long a write may take.
type bounds struct {
	by      time.Time     // until when; zero if timeout counts
	timeout time.Duration // for how long nothing of it may be taken; 0 for ever
}

// deadline is what holds from now on; zero if there is none.
func (b *bounds) deadline() time.Time {
	if b.by.IsZero() && b.timeout > 0 {
		return time.Now().Add(b.timeout)
	}
	return b.by
}

var (
	_ ResponseWriter  = (*response)(nil)
	_ io.StringWriter = (*response)(nil)
)

// begin makes it that of a request.
func (w *response) begin(r *http.Request) {
	if len(w.header) > 0 {
		clear(w.header)
	}
	w.out = w.out[:0]
	w.head, w.closes = r.Method == http.MethodHead, r.Close
	w.wrote, w.framed, w.sent, w.chunked, w.bodyless, w.typed, w.dated = false, false, false, false, false, false, false
	w.status, w.body, w.length, w.written = 0, 0, -1, 0
	w.trailers, w.lines, w.instead = w.trailers[:0], w.lines[:0], nil
	w.bounds = bounds{timeout: w.conn.server.WriteTimeout}
}

// Header returns the header of the answer.
func (w *response) Header() http.Header { return w.header }

// WriteHeader begins the answer, or sends an interim one.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("downstream: status " + strconv.Itoa(status) + ": want one of three digits")
	}
	if w.wrote || w.hijacked {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.out = appendStatus(w.out, status)
		w.appendFields(func(name string) bool { return name == "Content-Length" || name == "Transfer-Encoding" })
		w.out = append(w.out, "\r\n"...)
		w.flush()
		return
	}
	w.wrote, w.status = true, status
	w.bodyless = http1.BodyForbidden(status)
	if lines := w.header["Content-Length"]; len(lines) > 0 && !slices.Contains(w.instead, "Content-Length") {
		if n, ok := http1.ParseLength(lines[0]); ok && len(lines) == 1 && w.length < 0 {
			w.length = n
		} else {
			delete(w.header, "Content-Length")
		}
	}
	if left := w.conn.body.left.Load(); left > maxDrain {
		w.closes = true // or all of that would have to be read
	}
	w.begins()
}

// begins writes the header, and what frames the body if that is known.
func (w *response) begins() {
	if http1.HasElement(w.header["Connection"], "close") {
		w.closes = true
	}
	closes := w.closes || w.conn.server.ending.Load()
	for name := range http1.Elements(w.header["Trailer"]...) {
		if name = http.CanonicalHeaderKey(name); http1.IsToken(name) && !http1.FramesMessage(name) {
			w.trailers = append(w.trailers, name)
		}
	}
	w.out = appendStatus(w.out, w.status)
	if len(w.lines) > 0 {
		w.out = append(w.out, w.lines...)
		w.typed = w.typed || slices.Contains(w.instead, "Content-Type")
	}
	if len(w.header) > 0 {
		w.appendHeader(closes)
	}
	if !w.dated {
		w.out = append(w.out, "Date: "...)
		w.out = append(w.out, w.conn.server.date()...)
		w.out = append(w.out, "\r\n"...)
	}
	if closes {
		w.closes = true
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	switch {
	case w.bodyless, w.length >= 0 && w.typed, w.length == 0:
		w.out = append(w.out, "\r\n"...)
		w.framed = true
	default:
		w.body = len(w.out) // what comes shows how long it is, and of which type
	}
}

// appendHeader appends the header as far as it is for the client.
func (w *response) appendHeader(closes bool) {
	if _, ok := w.header["Date"]; ok {
		w.dated = true
	}
	if _, ok := w.header["Content-Type"]; ok {
		w.typed = true
	}
	w.appendFields(func(name string) bool {
		if w.instead != nil && slices.Contains(w.instead, name) {
			return true
		}
		switch name {
		case "Connection":
			return closes // which is said below
		case "Transfer-Encoding":
			return true
		case "Content-Length":
			return w.bodyless
		case "Content-Type":
			return w.status == http.StatusNotModified
		case "Content-Encoding":
			w.typed = w.typed || w.header["Content-Encoding"][0] != ""
		}
		return false
	})
}

// frame ends the header when it is known how the body is framed. whole tells that all of it is in out.
func (w *response) frame(whole bool) {
	w.framed = true
	var room [128]byte
	end := room[:0]
	if !w.typed && len(w.out) > w.body {
		end = append(end, "Content-Type: "...)
		end = append(end, http.DetectContentType(w.out[w.body:])...)
		end = append(end, "\r\n"...)
	}
	switch {
	case w.length >= 0:
	case w.head && (!whole || w.written == 0 || len(w.trailers) > 0 || w.hasLateTrailers()):
	case whole && len(w.trailers) == 0 && !w.hasLateTrailers():
		end = append(end, "Content-Length: "...)
		end = strconv.AppendInt(end, w.written, 10)
		end = append(end, "\r\n"...)
	default:
		w.chunked = true
		end = append(end, "Transfer-Encoding: chunked\r\n"...)
	}
	end = append(end, "\r\n"...)
	body := len(w.out) - w.body
	if w.head {
		body = 0
	}
	if w.chunked && body > 0 {
		end = strconv.AppendInt(end, int64(body), 16)
		end = append(end, "\r\n"...)
	}
	w.out = append(w.out[:w.body+body], end...)
	copy(w.out[w.body+len(end):], w.out[w.body:w.body+body])
	copy(w.out[w.body:], end)
	if w.chunked && body > 0 {
		w.out = append(w.out, "\r\n"...)
	}
}

// hasLateTrailers reports whether there are trailers that were not announced.
func (w *response) hasLateTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

const (
	// What a body may have before it is sent in chunks if nobody knows its length. It is net/http's.
	wholeBody = 2 << 10
	// What is collected before it is sent.
	outBuffer = 8 << 10
	// How much of a body tells its type.
	sniffed = 512
)

// Write writes some of the body.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString is Write.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[T string | []byte](w *response, p T) (int, error) {
	if w.hijacked {
		return 0, http.ErrHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	if w.bodyless {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if w.err != nil {
		return 0, w.err
	}
	if !w.framed {
		if len(w.out)-w.body+len(p) <= wholeBody {
			w.out = append(w.out, p...)
			return len(p), nil
		}
		if short := sniffed - (len(w.out) - w.body); !w.typed && short > 0 {
			// The type is told by how the body begins, in however many pieces.
			short = min(short, len(p))
			w.out = append(w.out, p[:short]...)
			p = p[short:]
		}
		w.frame(false)
	}
	if w.head || len(p) == 0 {
		return n, nil
	}
	if w.chunked {
		w.out = strconv.AppendInt(w.out, int64(len(p)), 16)
		w.out = append(w.out, "\r\n"...)
	}
	if len(w.out)+len(p) > outBuffer {
		w.flush()
		if len(p) > outBuffer/2 {
			w.send([]byte(p))
			p = p[len(p):]
		}
	}
	w.out = append(w.out, p...)
	if w.chunked {
		w.out = append(w.out, "\r\n"...)
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// Flush sends what is there.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frame(false)
	}
	w.flush()
	return w.err
}

// finish completes the answer and sends it.
func (w *response) finish() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frame(true)
	}
	if w.chunked {
		w.out = append(w.out, "0\r\n"...)
		w.appendTrailers()
		w.out = append(w.out, "\r\n"...)
	}
	w.flush()
	// What was made for an answer that is large is not kept.
	if cap(w.out) > 2*outBuffer {
		w.out = nil
	}
	if cap(w.lines) > outBuffer {
		w.lines = nil
	}
	if len(w.header) > manyFields {
		w.header, w.names = make(http.Header, fewFields), nil
	}
}

// missing reports whether the handler has written less than it said.
func (w *response) missing() bool {
	return w.length >= 0 && !w.head && !w.bodyless && w.written != w.length
}

func (w *response) flush() {
	if len(w.out) > 0 {
		w.send(w.out)
		w.out = w.out[:0]
	}
}

// send writes to the connection.
func (w *response) send(b []byte) {
	if w.err != nil {
		return
	}
	w.sent = true
	c := w.conn
	if c.socket != nil {
		if by := w.bounds.by; !by.IsZero() && !time.Now().Before(by) {
			w.err = os.ErrDeadlineExceeded // which a socket that need not wait would not say
			return
		}
		w.err = c.socket.write(b, &w.bounds)
		return
	}
	if by := w.bounds.deadline(); w.bounded || !by.IsZero() {
		w.bounded = !by.IsZero()
		_ = c.rwc.SetWriteDeadline(by) // if the connection is gone, writing says so
	}
	_, w.err = c.rwc.Write(b)
}

// unbound ends the deadline for writing, for who gets the connection.
func (w *response) unbound() {
	if w.bounded {
		w.bounded = false
		_ = w.conn.rwc.SetWriteDeadline(time.Time{}) // if the connection is gone, writing says so
	}
}

// SetWriteDeadline bounds how long writing may take, in place of Server.WriteTimeout.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.bounds = bounds{by: t}
	return nil
}

func (w *response) BoundsWrites() bool { return w.conn.server.WriteTimeout > 0 }

// SetReadDeadline bounds how long reading the body may take.
func (w *response) SetReadDeadline(t time.Time) error {
	w.conn.theirs.Store(true)
	return w.conn.rwc.SetReadDeadline(t)
}

// EnableFullDuplex is how it is anyway: the body may be read while the answer is written.
func (w *response) EnableFullDuplex() error { return nil }

// Hijack gives the connection to the handler.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	c := w.conn
	c.unwatch()
	c.disarm()
	if c.theirs.Load() {
		_ = c.rwc.SetReadDeadline(time.Time{})
	}
	if w.wrote && !w.framed {
		w.frame(false)
	}
	w.flush()
	if w.err != nil {
		return nil, nil, w.err
	}
	w.unbound()
	w.hijacked = true
	rest := append([]byte(nil), c.in.bytes()...)
	r := bufio.NewReaderSize(&replayed{Conn: c.rwc, rest: rest}, max(len(rest), headBuffer))
	if len(rest) > 0 {
		_, _ = r.Peek(1) // so that all of it is there
	}
	return c.rwc, bufio.NewReadWriter(r, bufio.NewWriter(c.rwc)), nil
}
