package downstream

import (
	"net/http"
	"slices"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A ResponseWriter is the http.ResponseWriter that a Server passes to its Handler. It accepts header lines in wire
// format, which saves a map: they are sent in front of those in Header, and are not in Header.
type ResponseWriter interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker

	// HeaderLines returns a buffer for SetHeaderLines, and true.
	HeaderLines() (room []byte, ok bool)
	// SetHeaderLines sets header lines in wire format: each has a valid name and value, and ends with CR and LF. They
	// are not sent with interim responses. Headers of the names in replaced are omitted.
	SetHeaderLines(lines []byte, replaced []string)
	// TakeHeaderLine adds a line to those, unless its name is omitted. The name is in canonical form, and name and
	// value are valid. They are copied, so they may refer to a buffer. It returns false if the line belongs in Header.
	TakeHeaderLine(name, value string) bool
	// Kept returns a variable in which a handler may keep a value between the requests of a connection. It reports whether
	// the handler of the last request has called Kept, and that request's head was the same, byte for byte except for
	// the case of header names. A second call for the same request returns nil: a handler in between may have changed
	// the request.
	Kept() (state *any, repeats bool)
	// BoundsWrites reports whether Server.WriteTimeout bounds writes, so that handlers need not set a deadline.
	BoundsWrites() bool
}

func (w *response) HeaderLines() (room []byte, ok bool) { return w.preset.lines[:0], true }

func (w *response) Kept() (state *any, repeats bool) {
	kept := &w.conn.kept
	if kept.used {
		return nil, false
	}
	kept.used = true
	return &kept.value, kept.repeats
}

func (w *response) SetHeaderLines(lines []byte, replaced []string) {
	w.preset.lines, w.preset.replaced = lines, replaced
}

func (w *response) TakeHeaderLine(name, value string) bool {
	if w.wrote {
		return false
	}
	if slices.Contains(w.preset.replaced, name) {
		return true
	}
	switch name {
	case "Connection", "Trailer", "Transfer-Encoding":
		return false
	case "Date":
		w.preset.dated = true
	case "Content-Type":
		w.preset.typed = true
	case "Content-Encoding":
		w.preset.typed = w.preset.typed || value != ""
	case "Content-Length":
		n, ok := http1.ParseLength(value)
		if !ok || w.length >= 0 {
			return false
		}
		w.length = n
	}
	w.preset.lines = http1.AppendField(w.preset.lines, name, value)
	return true
}
