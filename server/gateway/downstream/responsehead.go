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
	if !w.Dated {
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
		w.framed = true
	default:
		w.body = len(w.out) // frame adds the length and the type when they are known
	}
}

// frame completes the header with the type and the framing of the body. out already has the beginning of the body, so
// frame inserts these fields in front of it. whole means that out has the whole body.
func (w *response) frame(whole bool) {
	w.framed = true
	var buffer [128]byte
	end := buffer[:0]
	if !w.NoSniff && len(w.out) > w.body {
		end = append(end, "Content-Type: "...)
		end = append(end, http.DetectContentType(w.out[w.body:])...)
		end = append(end, "\r\n"...)
	}
	switch {
	case w.Length >= 0:
	case w.head && (!whole || w.written == 0 || len(w.Trailers) > 0 || w.hasLateTrailers()):
	case whole && len(w.Trailers) == 0 && !w.hasLateTrailers():
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

// hasLateTrailers reports whether the handler has set trailers that it has not announced.
func (w *response) hasLateTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}
