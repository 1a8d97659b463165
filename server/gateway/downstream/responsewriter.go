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
	// BoundsWrites reports whether Server.WriteTimeout bounds writes, so that handlers need not set a deadline.
	BoundsWrites() bool
}

func (w *response) HeaderLines() (room []byte, ok bool) { return w.preset.lines[:0], true }

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
