package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/identity"
)

// A ProxyWriter is the ResponseWriter of a reverse proxy, such as package gateway, that has this middleware in front of
// its upstreams. It saves work that proxy and middleware would otherwise both do. A proxy panics if it cannot send the
// whole response.
type ProxyWriter interface {
	http.ResponseWriter

	// Identified returns the client, if the proxy has identified it with the same Identifier and the request's
	// Connection header names no other headers; else nil.
	Identified(by *identity.Identifier) *identity.Attributes

	// HeaderLines returns a buffer for SetHeaderLines, which is in use until the response ends. It returns false if the
	// server does not accept header lines.
	HeaderLines() (buf []byte, ok bool)
	// SetHeaderLines sets header lines in wire format: valid names and values, each line with its CR and LF. They are
	// sent with the final response, without the entries of Header whose names are in replaced. A caller that sets lines,
	// even none, does not read Header later.
	SetHeaderLines(lines []byte, replaced []string)

	// Unserved reports whether the request was allowed, but no service has received any of it.
	Unserved() bool
}

// headerLines returns w as a ProxyWriter, with the buffer for its header lines; nil if it does not accept them.
func headerLines(w http.ResponseWriter) (lines ProxyWriter, buf []byte) {
	lines, ok := w.(ProxyWriter)
	if !ok {
		return nil, nil
	}
	if buf, ok = lines.HeaderLines(); !ok {
		return nil, nil
	}
	return lines, buf
}
