package h2

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// beginBlock encodes the header, except the fields that depend on the body.
func (w *response) beginBlock() {
	if http1.HasElement(w.header["Connection"], "close") {
		w.stream.conn.Drain()
	}
	w.block = appendLines(appendStatus(w.block[:0], w.status), w.Lines)
	w.appendHeader()
	if !w.HasDate {
		w.block = appendField(w.block, "Date", w.stream.conn.server.Date())
	}
}

// appendLines encodes header lines.
func appendLines(dst, lines []byte) []byte {
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\r\n"))
		lines = rest
		if name, value, ok := bytes.Cut(line, []byte(":")); ok {
			dst = appendField(dst, name, bytes.TrimLeft(value, " "))
		}
	}
	return dst
}

// appendHeader encodes the fields of Header.
func (w *response) appendHeader() {
	for name, lines := range w.header {
		omitted := w.Replaces(name) || name == "Content-Length" && w.bodyForbidden ||
			name == "Content-Type" && w.status == http.StatusNotModified
		if !omitted {
			w.appendValues(name, lines)
		}
	}
}

// appendValues encodes the values of a field. It omits fields that HTTP/2 does not allow, and unannounced trailers,
// whose names are not tokens because they contain a colon (http.TrailerPrefix).
func (w *response) appendValues(name string, lines []string) {
	if len(lines) == 0 || isConnectionField(name) || !http1.IsToken(name) {
		return
	}
	for _, value := range lines {
		w.block = appendField(w.block, name, strings.Trim(value, " \t\r\n"))
	}
}

// endBlock encodes the fields that depend on the body. whole means that w.out is the whole body.
func (w *response) endBlock(whole bool) {
	if !w.NoSniff && len(w.out) > 0 {
		w.block = appendField(w.block, "Content-Type", http.DetectContentType(w.out))
	}
	if whole && w.Length < 0 && !w.bodyForbidden && (!w.bodyless || w.written > 0) && len(w.Trailers) == 0 {
		var digits [20]byte
		w.block = appendField(w.block, []byte("Content-Length"), strconv.AppendInt(digits[:0], w.written, 10))
	}
}

// sendInterim sends an interim response with the fields of Header.
func (w *response) sendInterim(status int) {
	w.block = appendStatus(w.block[:0], status)
	for name, lines := range w.header {
		if name != "Content-Length" {
			w.appendValues(name, lines)
		}
	}
	w.send(part{block: w.block, interim: true, flush: true})
}

// sendContinue queues 100 Continue, unless the response has begun. conn.mu is held.
func (w *response) sendContinue() {
	if st := w.stream; !st.responded && st.err == nil {
		st.conn.sendBlock(st.id, appendStatus(nil, http.StatusContinue), false)
	}
}

// appendTrailers encodes the trailers.
func (w *response) appendTrailers(dst []byte) []byte {
	for name, lines := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && http1.IsToken(name) && !http1.FramesMessage(name) {
			for _, value := range lines {
				dst = appendField(dst, name, strings.Trim(value, " \t\r\n"))
			}
		}
	}
	for _, name := range w.Trailers {
		for _, value := range w.header[name] {
			dst = appendField(dst, name, strings.Trim(value, " \t\r\n"))
		}
	}
	return dst
}
