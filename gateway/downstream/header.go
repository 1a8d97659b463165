package downstream

import (
	"cmp"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/gateway/internal/http1"
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
	// are not sent with interim responses. Headers of the names in instead are omitted.
	SetHeaderLines(lines []byte, instead []string)
	// TakeHeaderLine adds a line to those, unless its name is omitted. The name is in canonical form, and name and
	// value are valid. They are copied, so they may refer to a buffer. It returns false if the line belongs in Header.
	TakeHeaderLine(name, value string) bool
	// Kept returns a place where a handler may keep a value between the requests of a connection. It reports whether
	// the handler of the last request has called Kept, and that request's head was the same, byte for byte except for
	// the case of header names. A second call for the same request returns nil: a handler in between may have changed
	// the request.
	Kept() (place *any, repeats bool)
	// BoundsWrites reports whether Server.WriteTimeout bounds writes, so that handlers need not set a deadline.
	BoundsWrites() bool
}

func (w *response) HeaderLines() (room []byte, ok bool) { return w.lines[:0], true }

func (w *response) Kept() (place *any, repeats bool) {
	if w.conn.looked {
		return nil, false
	}
	w.conn.looked = true
	return &w.conn.kept, w.conn.repeats
}

func (w *response) SetHeaderLines(lines []byte, instead []string) {
	w.lines, w.instead = lines, instead
}

func (w *response) TakeHeaderLine(name, value string) bool {
	if w.wrote {
		return false
	}
	for _, other := range w.instead {
		if other == name {
			return true
		}
	}
	switch len(name) { // which rules most of them out
	case len("Date"):
		w.dated = w.dated || name == "Date"
	case len("Trailer"):
		if name == "Trailer" {
			return false
		}
	case len("Connection"):
		if name == "Connection" {
			return false
		}
	case len("Content-Type"):
		w.typed = w.typed || name == "Content-Type"
	case len("Content-Length"):
		if name == "Content-Length" {
			n, ok := http1.ParseLength(value)
			if !ok || w.length >= 0 {
				return false
			}
			w.length = n
		}
	case len("Content-Encoding"):
		w.typed = w.typed || name == "Content-Encoding" && value != ""
	case len("Transfer-Encoding"):
		if name == "Transfer-Encoding" {
			return false
		}
	}
	w.lines = http1.AppendField(w.lines, name, value)
	return true
}

// A headerName is the name of a header, with a number by which most are told apart.
type headerName struct {
	prefix uint64
	name   string
}

// appendFields appends the header's lines in the order of their names, but for those that are left out.
func (w *response) appendFields(without func(name string) bool) {
	w.names = w.names[:0]
	for name, lines := range w.header {
		if len(lines) == 0 || !http1.IsToken(name) {
			continue // so are the names of late trailers no names, as they have a colon
		}
		w.names = append(w.names, headerName{name: name, prefix: prefixOf(name)})
	}
	slices.SortFunc(w.names, func(a, b headerName) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return cmp.Compare(a.name, b.name)
	})
	for i := range w.names {
		name := w.names[i].name
		if without(name) {
			continue
		}
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// prefixOf returns the first bytes of a name as a number, in the order of names.
func prefixOf(name string) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// appendTrailers appends what follows the body.
func (w *response) appendTrailers() {
	var late []string
	for name := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && http1.IsToken(name) && !http1.FramesMessage(name) {
			late = append(late, name)
		}
	}
	slices.Sort(late)
	for _, name := range late {
		for _, value := range w.header[http.TrailerPrefix+name] {
			w.out = appendField(w.out, name, value)
		}
	}
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			w.out = appendField(w.out, name, value)
		}
	}
}

// appendField appends a header line. What would end the line becomes a space.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	from := len(dst)
	dst = append(dst, strings.Trim(value, " \t\r\n")...)
	for i, c := range dst[from:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			dst[from+i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// appendStatus appends the first line of an answer.
func appendStatus(dst []byte, status int) []byte {
	if status == http.StatusOK {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	if text := http.StatusText(status); text != "" {
		dst = append(dst, text...)
	} else {
		dst = append(dst, "status code "...)
		dst = strconv.AppendInt(dst, int64(status), 10)
	}
	return append(dst, "\r\n"...)
}
