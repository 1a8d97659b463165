package downstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/responsewriter"
)

// A response is the http.ResponseWriter of one request. It is reused for later requests of the connection.
type response struct {
	conn   *conn
	header http.Header
	names  []string // reused by appendFields
	out    []byte   // bytes that were not sent yet

	responsewriter.Preset
	responsewriter.Timeout
	responseFraming
	closes   bool // the connection is closed after this response
	hijacked bool
	status   int
	written  int64 // bytes of the body that the handler has written
	err      error // the first error of a write to the connection
}

// responseFraming describes how the body of a response is sent.
type responseFraming struct {
	isHEAD    bool // the method is HEAD
	bodyless  bool // the status forbids a body
	headEnded bool // the header is complete, with Content-Length or Transfer-Encoding
	chunked   bool // the body is sent in chunks
	bodyStart int  // index of the body in out, until headEnded is set
}

var (
	_ ResponseWriter  = (*response)(nil)
	_ io.StringWriter = (*response)(nil)
)

// begin prepares the response for a request.
func (w *response) begin(r *http.Request) {
	if len(w.header) > 0 {
		clear(w.header)
	}
	w.out = w.out[:0]
	w.responseFraming = responseFraming{isHEAD: r.Method == http.MethodHead}
	w.ResetPreset()
	w.Timeout = responsewriter.NewTimeout(w.conn.server.WriteTimeout)
	w.closes, w.status, w.written = r.Close, 0, 0
}

// Header returns the header of the response.
func (w *response) Header() http.Header { return w.header }

// WriteHeader begins the response, or sends an interim response.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("downstream: status " + strconv.Itoa(status) + ": want one of three digits")
	}
	if w.HeaderWritten || w.hijacked {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.out = appendStatus(w.out, status)
		w.appendFields(func(name string) bool { return name == "Content-Length" || name == "Transfer-Encoding" })
		w.out = append(w.out, "\r\n"...)
		w.flush()
		return
	}
	w.HeaderWritten, w.status = true, status
	w.bodyless = http1.BodyForbidden(status)
	w.ReadHeader(w.header)
	if w.conn.current.bodyLeft() > maxDrain {
		w.closes = true // otherwise the rest of the request's body would have to be read
	}
	w.beginHead()
}

const (
	// maxWholeBody is the maximum number of bytes of a body that are buffered to send a Content-Length instead of chunks.
	// net/http has the same limit.
	maxWholeBody = 2 << 10
	// outBuffer is the number of bytes that are buffered before they are sent.
	outBuffer = 16 << 10
	// sniffLen is the number of bytes at the beginning of a body that determine its Content-Type.
	sniffLen = 512
)

// Write writes a part of the body.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[T string | []byte](w *response, p T) (int, error) {
	if w.hijacked {
		return 0, http.ErrHijacked
	}
	if !w.HeaderWritten {
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
	if w.Length >= 0 && w.written > w.Length {
		return 0, http.ErrContentLength
	}
	if w.err != nil {
		return 0, w.err
	}
	if !w.headEnded {
		if len(w.out)-w.bodyStart+len(p) <= maxWholeBody {
			w.out = append(w.out, p...)
			return len(p), nil
		}
		if missing := sniffLen - (len(w.out) - w.bodyStart); !w.NoSniff && missing > 0 {
			// The detected type must not depend on how the handler divides the first bytes into writes.
			missing = min(missing, len(p))
			w.out = append(w.out, p[:missing]...)
			p = p[missing:]
		}
		w.endHead(false)
	}
	if w.isHEAD || len(p) == 0 {
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

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if !w.HeaderWritten {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headEnded {
		w.endHead(false)
	}
	w.flush()
	return w.err
}

// finish completes the response and sends it.
func (w *response) finish() {
	if !w.HeaderWritten {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headEnded {
		w.endHead(true)
	}
	if w.chunked {
		w.out = append(w.out, "0\r\n"...)
		w.appendTrailers()
		w.out = append(w.out, "\r\n"...)
	}
	w.flush()
	// Free the memory of a large response.
	if cap(w.out) > 2*outBuffer {
		w.out = nil
	}
	if cap(w.Lines) > outBuffer {
		w.Lines = nil
	}
	if len(w.header) > manyFields {
		w.header, w.names = make(http.Header, fewFields), nil
	}
}

// bodyIncomplete reports whether the handler has written less than its Content-Length.
func (w *response) bodyIncomplete() bool {
	return w.Length >= 0 && !w.isHEAD && !w.bodyless && w.written != w.Length
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
	link := &w.conn.link
	if link.socket != nil {
		if w.Expired() {
			w.err = os.ErrDeadlineExceeded // if the write does not block, the socket ignores the deadline
			return
		}
		w.err = link.socket.write(b, &w.Timeout)
		return
	}
	if deadline := w.WriteDeadline(); link.hasWriteDeadline || !deadline.IsZero() {
		link.hasWriteDeadline = !deadline.IsZero()
		_ = link.rwc.SetWriteDeadline(deadline) // if the connection is closed, writing fails
	}
	_, w.err = link.rwc.Write(b)
}

// clearWriteDeadline removes the write deadline, before net/http or the caller of Hijack uses the connection.
func (l *link) clearWriteDeadline() {
	if l.hasWriteDeadline {
		l.hasWriteDeadline = false
		_ = l.rwc.SetWriteDeadline(time.Time{}) // if the connection is closed, writing fails
	}
}

// BoundsWrites implements ResponseWriter. It reports whether the server itself limits the time of each write.
func (w *response) BoundsWrites() bool { return w.conn.server.WriteTimeout > 0 }

// SetReadDeadline sets a deadline for reading the body. It does nothing if the deadline has no effect.
func (w *response) SetReadDeadline(t time.Time) error {
	b := w.conn.current.body
	if b != nil && b.arrived && !w.conn.deadline.byHandler.Load() && (t.IsZero() || t.After(time.Now())) {
		return nil
	}
	w.conn.deadline.byHandler.Store(true)
	return w.conn.link.rwc.SetReadDeadline(t)
}

// EnableFullDuplex does nothing: the body can always be read while the response is written.
func (w *response) EnableFullDuplex() error { return nil }

// Hijack implements http.Hijacker.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	c := w.conn
	c.endWatch()
	c.clearReadDeadline()
	if c.deadline.byHandler.Load() {
		_ = c.link.rwc.SetReadDeadline(time.Time{})
	}
	if w.HeaderWritten && !w.headEnded {
		w.endHead(false)
	}
	w.flush()
	if w.err != nil {
		return nil, nil, w.err
	}
	c.link.clearWriteDeadline()
	w.hijacked = true
	rest := append([]byte(nil), c.in.bytes()...)
	r := bufio.NewReaderSize(&replayedConn{Conn: c.link.rwc, rest: rest}, max(len(rest), keptHead))
	if len(rest) > 0 {
		_, _ = r.Peek(1) // moves all of rest into the buffer of r
	}
	return c.link.rwc, bufio.NewReadWriter(r, bufio.NewWriter(c.link.rwc)), nil
}
