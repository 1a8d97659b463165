package h2

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

// A response is the http.ResponseWriter of one request. It is reused for other requests.
type response struct {
	stream *stream
	header http.Header
	block  []byte // the header block, until it is sent
	out    []byte // bytes of the body that were not sent yet

	responsewriter.Preset
	responsewriter.Timeout
	status        int   // 0 until the handler has written the header
	bodyless      bool  // no body is sent, because of the status or the method HEAD
	bodyForbidden bool  // writing a body is an error, because of the status
	sent          bool  // the header was sent
	ended         bool  // the end of the stream was sent
	written       int64 // bytes of the body that the handler has written
	err           error // why sending has failed
}

const (
	// outBuffered is the number of bytes of a body that are buffered before they are sent.
	outBuffered = 16 << 10
	// sniffLen is the number of bytes at the beginning of a body that determine its Content-Type.
	sniffLen = 512
	// keptBlock is the maximum size of a header block whose memory is reused.
	keptBlock = 4 << 10
)

var (
	_ responsewriter.ResponseWriter = (*response)(nil)
	_ io.StringWriter               = (*response)(nil)
)

// begin prepares the response for a request.
func (w *response) begin(r *http.Request) {
	if len(w.header) > 0 {
		clear(w.header)
	}
	w.block, w.out = w.block[:0], w.out[:0]
	w.ResetPreset()
	w.Timeout = responsewriter.NewTimeout(w.stream.conn.server.WriteTimeout)
	w.bodyless, w.bodyForbidden = r.Method == http.MethodHead, false
	w.status, w.sent, w.ended, w.written, w.err = 0, false, false, 0, nil
}

// shrink frees memory that is too large to be kept for the next request.
func (w *response) shrink() {
	if cap(w.block) > keptBlock {
		w.block = nil
	}
	if cap(w.Lines) > keptBlock {
		w.Lines = nil
	}
	if cap(w.out) > 2*outBuffered {
		w.out = nil
	}
	if len(w.header) > manyFields {
		w.header = make(http.Header, fewFields)
	}
}

// Header returns the header of the response.
func (w *response) Header() http.Header { return w.header }

// WriteHeader begins the response, or sends an interim response.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 || status == http.StatusSwitchingProtocols {
		panic("h2: status " + strconv.Itoa(status) + ": want one of three digits, but not 101")
	}
	switch {
	case w.status != 0:
	case status < 200:
		w.sendInterim(status)
	default:
		w.HeaderWritten, w.status = true, status
		if http1.BodyForbidden(status) {
			w.bodyless, w.bodyForbidden = true, true
		}
		w.ReadHeader(w.header)
		w.beginBlock()
	}
}

// Write writes a part of the body.
func (w *response) Write(p []byte) (int, error) { return write(w, p) }

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) { return write(w, s) }

func write[T string | []byte](w *response, p T) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.bodyForbidden {
		return 0, http.ErrBodyNotAllowed
	}
	n := len(p)
	if w.Length >= 0 && w.written+int64(n) > w.Length {
		return 0, http.ErrContentLength
	}
	w.written += int64(n)
	switch {
	case w.err != nil:
		return 0, w.err
	case w.bodyless:
		if len(w.out) < sniffLen { // to detect the Content-Type
			w.out = append(w.out, p[:min(len(p), sniffLen-len(w.out))]...)
		}
		return len(p), nil
	case len(w.out)+len(p) <= outBuffered:
		w.out = append(w.out, p...)
		return n, nil
	case len(w.out)+len(p) <= 2*outBuffered:
		w.out = append(w.out, p...)
		w.sendBuffered(false, !w.isWhole())
	default:
		if missing := sniffLen - len(w.out); missing > 0 && !w.sent && !w.NoSniff {
			w.out = append(w.out, p[:missing]...)
			p = p[missing:]
		}
		w.sendBuffered(false, false)
		w.send(part{data: []byte(p), flush: !w.isWhole()})
	}
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// isWhole reports whether the handler has written the whole body. Then no flush is needed, because the handler usually
// returns soon.
func (w *response) isWhole() bool { return w.Length == w.written }

// bodyIncomplete reports whether the handler has written less than its Content-Length.
func (w *response) bodyIncomplete() bool {
	return w.Length >= 0 && !w.bodyless && w.written != w.Length
}

// send sends a part of the response.
func (w *response) send(p part) {
	if w.err != nil || w.ended {
		return
	}
	if w.Expired() {
		w.err = os.ErrDeadlineExceeded
		return
	}
	w.ended = p.end
	w.err = w.stream.send(p)
}

// sendBuffered sends the header if it was not sent, and the buffered body.
func (w *response) sendBuffered(end, flush bool) {
	p := part{data: w.out, end: end, flush: flush}
	if !w.sent {
		w.endBlock(end)
		w.sent, p.block = true, w.block
		if w.bodyless {
			p.data, p.end = nil, true
		}
	} else if len(p.data) == 0 && !end {
		return
	}
	w.send(p)
	w.out = w.out[:0]
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.sendBuffered(false, true)
	return w.err
}

// complete queues the rest of the response. The stream flushes it.
func (w *response) complete() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.ended || w.bodyIncomplete() {
		return
	}
	trailers := w.appendTrailers(nil)
	if len(trailers) == 0 || w.bodyless {
		w.sendBuffered(true, false)
		return
	}
	w.sendBuffered(false, false)
	w.send(part{block: trailers, end: true})
}

// refuse responds to a request whose header is too large.
func (w *response) refuse() {
	w.header["Content-Type"] = []string{"text/plain; charset=utf-8"}
	w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = io.WriteString(w, "The header is too large.\n") // it is only buffered, so it cannot fail
}

// BoundsWrites implements ResponseWriter.
func (w *response) BoundsWrites() bool { return w.stream.conn.server.WriteTimeout > 0 }

// SetReadDeadline sets a deadline for reading the body.
func (w *response) SetReadDeadline(t time.Time) error {
	if b := w.stream.body; b != nil {
		b.setDeadline(t)
	}
	return nil
}

// EnableFullDuplex does nothing: the body can always be read while the response is written.
func (w *response) EnableFullDuplex() error { return nil }

// Hijack fails, because other requests use the connection too.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}
