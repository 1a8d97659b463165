package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/identity"
)

// A ProxyWriter is the ResponseWriter of a reverse proxy that uses this middleware, such as package gateway. It saves
// work that the proxy and the middleware would otherwise both do. A proxy must panic if it cannot send the whole
// response.
type ProxyWriter interface {
	http.ResponseWriter

	// Identified returns the attributes of the client if the proxy has read them with the same Identifier, and if the
	// request's Connection header names no other headers. Otherwise it returns nil.
	Identified(by *identity.Identifier) *identity.Attributes

	// HeaderLines returns a buffer for the lines that SetHeaderLines gets. The proxy uses it until the response ends. ok
	// is false if the server does not accept header lines.
	HeaderLines() (buf []byte, ok bool)
	// SetHeaderLines sets header lines in wire format: valid names and values, with CR and LF at the end of each line.
	// They are sent with the final response. The entries of Header whose names are in replaced are not sent. After a call,
	// even without lines, the caller must not read Header.
	SetHeaderLines(lines []byte, replaced []string)

	// Unserved reports whether the request was allowed, but no service has received any part of it.
	Unserved() bool
}

// headerLines returns w as a ProxyWriter, and the buffer for its header lines. It returns nil if w accepts none.
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
