package downstream

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// takeLength takes the Content-Length of the header, or deletes one that is invalid.
func (w *response) takeLength() {
	lines := w.header["Content-Length"]
	if len(lines) == 0 || slices.Contains(w.preset.replaced, "Content-Length") {
		return
	}
	if n, ok := http1.ParseLength(lines[0]); ok && len(lines) == 1 && w.length < 0 {
		w.length = n
	} else {
		delete(w.header, "Content-Length")
	}
}

// beginHead appends the head of the response, and completes it if the framing of the body is known.
func (w *response) beginHead() {
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
	if p := &w.preset; len(p.lines) > 0 {
		w.out = append(w.out, p.lines...)
		p.noSniff = p.noSniff || slices.Contains(p.replaced, "Content-Type")
	}
	if len(w.header) > 0 {
		w.appendHeader(closes)
	}
	if !w.preset.dated {
		w.out = append(w.out, "Date: "...)
		w.out = append(w.out, w.conn.server.date()...)
		w.out = append(w.out, "\r\n"...)
	}
	if closes {
		w.closes = true
		w.out = append(w.out, "Connection: close\r\n"...)
	}
	switch {
	case w.bodyless, w.length >= 0 && w.preset.noSniff, w.length == 0:
		w.out = append(w.out, "\r\n"...)
		w.framed = true
	default:
		w.body = len(w.out) // length and type are known when there is a body
	}
}

// appendHeader appends the header, without the fields that the server sets itself.
func (w *response) appendHeader(closes bool) {
	if _, ok := w.header["Date"]; ok {
		w.preset.dated = true
	}
	if _, ok := w.header["Content-Type"]; ok {
		w.preset.noSniff = true
	}
	w.appendFields(func(name string) bool {
		if w.preset.replaced != nil && slices.Contains(w.preset.replaced, name) {
			return true
		}
		switch name {
		case "Connection":
			return closes // beginHead adds it
		case "Transfer-Encoding":
			return true
		case "Content-Length":
			return w.bodyless
		case "Content-Type":
			return w.status == http.StatusNotModified
		case "Content-Encoding":
			w.preset.noSniff = w.preset.noSniff || w.header["Content-Encoding"][0] != ""
		}
		return false
	})
}

// frame completes the header with the framing of the body. If whole, all of the body is in out.
func (w *response) frame(whole bool) {
	w.framed = true
	var room [128]byte
	end := room[:0]
	if !w.preset.noSniff && len(w.out) > w.body {
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

// hasLateTrailers reports whether the handler has set trailers that it has not announced.
func (w *response) hasLateTrailers() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}
