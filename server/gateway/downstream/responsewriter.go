package downstream

import (
	"net/http"
	"slices"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A ResponseWriter is the http.ResponseWriter that a Server passes to its Handler. It accepts header lines in wire
// format, which avoids building a map. They are sent in front of the fields in Header, and do not appear in Header.
type ResponseWriter interface {
	http.ResponseWriter
	http.Flusher
	http.Hijacker

	// HeaderLines returns an empty buffer for SetHeaderLines.
	HeaderLines() []byte
	// SetHeaderLines sets header lines in wire format: each has a valid name and value, and ends with CR and LF. They
	// are not sent with interim responses. Fields in Header whose names are in replaced are not sent.
	SetHeaderLines(lines []byte, replaced []string)
	// TryAddHeaderLine adds a line to those of SetHeaderLines, or ignores it if its name is in replaced. The name must be
	// in canonical form, and name and value must be valid. They are copied, so they may refer to a buffer. It returns
	// false if it cannot add the line: if the field must be set in Header, or the header was already written.
	TryAddHeaderLine(name, value string) bool
	// BoundsWrites reports whether Server.WriteTimeout bounds writes, so that handlers need not set a deadline.
	BoundsWrites() bool
}

func (w *response) HeaderLines() []byte { return w.preset.lines[:0] }

func (w *response) SetHeaderLines(lines []byte, replaced []string) {
	w.preset.lines, w.preset.replaced = lines, replaced
}

func (w *response) TryAddHeaderLine(name, value string) bool {
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
		w.preset.noSniff = true
	case "Content-Encoding":
		w.preset.noSniff = w.preset.noSniff || value != ""
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
