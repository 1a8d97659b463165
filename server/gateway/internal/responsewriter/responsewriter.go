package responsewriter

import (
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A ResponseWriter is an http.ResponseWriter that accepts header lines in wire format, which avoids building a map.
// They are sent in front of the fields in Header, and do not appear in Header.
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
	// false if the header was already written, or if the field must be set in Header instead.
	TryAddHeaderLine(name, value string) bool
	// BoundsWrites reports whether the server limits the time of writes itself, so that handlers need not set a deadline.
	BoundsWrites() bool
}

// Preset has the header lines that the handler has set in wire format, and the information about the body from these
// lines and from Header.
type Preset struct {
	Lines    []byte
	Replaced []string // names of fields in Header that Lines replace
	NoSniff  bool     // the Content-Type is not detected, because Lines or Header have it, or a Content-Encoding
	HasDate  bool     // Lines or Header have a Date
	Length   int64    // the Content-Length; -1 if there is none
	Trailers []string // names of the announced trailers

	HeaderWritten bool // the handler has written the header, so no lines can be added
}

// ResetPreset prepares p for another response.
func (p *Preset) ResetPreset() {
	p.Lines, p.Replaced, p.Trailers = p.Lines[:0], nil, p.Trailers[:0]
	p.NoSniff, p.HasDate, p.HeaderWritten, p.Length = false, false, false, -1
}

// HeaderLines implements ResponseWriter.
func (p *Preset) HeaderLines() []byte { return p.Lines[:0] }

// SetHeaderLines implements ResponseWriter.
func (p *Preset) SetHeaderLines(lines []byte, replaced []string) {
	p.Lines, p.Replaced = lines, replaced
}

// TryAddHeaderLine implements ResponseWriter.
func (p *Preset) TryAddHeaderLine(name, value string) bool {
	if p.HeaderWritten {
		return false
	}
	if p.Replaces(name) {
		return true
	}
	switch name {
	case "Connection", "Trailer", "Transfer-Encoding":
		return false
	case "Date":
		p.HasDate = true
	case "Content-Type":
		p.NoSniff = true
	case "Content-Encoding":
		p.NoSniff = p.NoSniff || value != ""
	case "Content-Length":
		n, ok := http1.ParseLength(value)
		if !ok || p.Length >= 0 {
			return false
		}
		p.Length = n
	}
	p.Lines = http1.AppendField(p.Lines, name, value)
	return true
}

// Replaces reports whether Lines replace the field of this name in Header.
func (p *Preset) Replaces(name string) bool { return slices.Contains(p.Replaced, name) }

// ReadHeader sets Length, Trailers, HasDate and NoSniff from the fields of Header. It deletes an invalid
// Content-Length from Header.
func (p *Preset) ReadHeader(h http.Header) {
	if len(p.Lines) > 0 && p.Replaces("Content-Type") {
		p.NoSniff = true
	}
	if len(h) == 0 {
		return
	}
	if lines := h["Content-Length"]; len(lines) > 0 && !p.Replaces("Content-Length") {
		if n, ok := http1.ParseLength(lines[0]); ok && len(lines) == 1 && p.Length < 0 {
			p.Length = n
		} else {
			delete(h, "Content-Length")
		}
	}
	for name := range http1.Elements(h["Trailer"]...) {
		if name = http.CanonicalHeaderKey(name); http1.IsToken(name) && !http1.FramesMessage(name) {
			p.Trailers = append(p.Trailers, name)
		}
	}
	if _, ok := h["Date"]; ok {
		p.HasDate = true
	}
	if _, ok := h["Content-Type"]; ok {
		p.NoSniff = true
	}
	if encoding := h["Content-Encoding"]; len(encoding) > 0 && encoding[0] != "" && !p.Replaces("Content-Encoding") {
		p.NoSniff = true
	}
}

// A Timeout limits the time of writes, by a deadline of the handler or by a limit for each write.
type Timeout struct {
	until time.Time     // the handler's deadline; zero if limit applies
	limit time.Duration // how long a client may accept no bytes; 0 for no limit
}

// NewTimeout returns a Timeout with the given limit on the time that a client accepts no bytes; 0 for no limit.
func NewTimeout(limit time.Duration) Timeout { return Timeout{limit: limit} }

// SetWriteDeadline sets a deadline for writing that replaces the limit.
func (t *Timeout) SetWriteDeadline(deadline time.Time) error {
	*t = Timeout{until: deadline}
	return nil
}

// WriteDeadline returns the deadline of a write that begins to wait now; zero if there is none.
func (t *Timeout) WriteDeadline() time.Time {
	if t.until.IsZero() && t.limit > 0 {
		return time.Now().Add(t.limit)
	}
	return t.until
}

// Expired reports whether the deadline of SetWriteDeadline has passed.
func (t *Timeout) Expired() bool { return !t.until.IsZero() && !time.Now().Before(t.until) }
