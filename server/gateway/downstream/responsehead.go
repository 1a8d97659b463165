package downstream

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// beginHead appends the head of the response, and completes it if the framing of the body is known.
func (w *response) beginHead() {
	if http1.HasElement(w.header["Connection"], "close") {
		w.closes = true
	}
	closes := w.closes || w.conn.server.ending.Load()
	w.out = append(appendStatus(w.out, w.status), w.Lines...)
	w.appendFields(func(name string) bool {
		return w.Replaces(name) || name == "Transfer-Encoding" || name == "Connection" && closes ||
			name == "Content-Length" && w.bodyless || name == "Content-Type" && w.status == http.StatusNotModified
	})
	if !w.HasDate {
		w.out = append(w.out, "Date: "...)
		w.out = append(w.out, w.conn.server.date()...)
		w.out = append(w.out, "\r\n"...)
	}
	if closes {
		w.closes = true
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	switch {
	case w.bodyless, w.Length >= 0 && w.NoSniff, w.Length == 0:
		w.out = append(w.out, "\r\n"...)
		w.headEnded = true
	default:
		w.bodyStart = len(w.out) // endHead adds the length and the type when they are known
	}
}

// endHead completes the head with the type and the framing of the body. out already has the beginning of the body, so
// endHead inserts these fields in front of it. whole means that out has the whole body.
func (w *response) endHead(whole bool) {
	w.headEnded = true
	var buffer [128]byte
	fields := buffer[:0]
	if !w.NoSniff && len(w.out) > w.bodyStart {
		fields = append(fields, "Content-Type: "...)
		fields = append(fields, http.DetectContentType(w.out[w.bodyStart:])...)
		fields = append(fields, "\r\n"...)
	}
	switch {
	case w.Length >= 0:
	case w.isHEAD && (!whole || w.written == 0 || len(w.Trailers) > 0 || w.hasLateTrailers()):
	case whole && len(w.Trailers) == 0 && !w.hasLateTrailers():
		fields = append(fields, "Content-Length: "...)
		fields = strconv.AppendInt(fields, w.written, 10)
		fields = append(fields, "\r\n"...)
	default:
		w.chunked = true
		fields = append(fields, "Transfer-Encoding: chunked\r\n"...)
	}
	fields = append(fields, "\r\n"...)
	bodyLen := len(w.out) - w.bodyStart
	if w.isHEAD {
		bodyLen = 0
	}
	if w.chunked && bodyLen > 0 {
		fields = strconv.AppendInt(fields, int64(bodyLen), 16)
		fields = append(fields, "\r\n"...)
	}
	w.out = append(w.out[:w.bodyStart+bodyLen], fields...)
	copy(w.out[w.bodyStart+len(fields):], w.out[w.bodyStart:w.bodyStart+bodyLen])
	copy(w.out[w.bodyStart:], fields)
	if w.chunked && bodyLen > 0 {
		w.out = append(w.out, "\r\n"...)
	}
}

// hasLateTrailers reports whether the handler has set trailers that it has not announced.
func (w *response) hasLateTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}
