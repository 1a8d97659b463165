package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/identity"
)

// A ProxyWriter is a ResponseWriter with methods for a reverse proxy in which this middleware runs, such as package
// gateway. With these methods the proxy and the middleware avoid doing the same work twice. If the next handler is such
// a proxy and cannot send the whole response, it must panic.
type ProxyWriter interface {
	http.ResponseWriter

	// Identified returns the attributes of the client if the proxy has already read them with the given Identifier, and
	// the request's Connection header lists no other headers. Otherwise it returns nil.
	Identified(by *identity.Identifier) *identity.Attributes

	// HeaderLines returns a buffer to which the middleware appends header lines before it calls SetHeaderLines. The buffer
	// belongs to the proxy again when the response ends. ok is false if the server does not accept header lines.
	HeaderLines() (buf []byte, ok bool)
	// SetHeaderLines sets lines to send in the header of the final response, in addition to Header. The lines are in wire
	// format: names and values are valid, and each line ends with CR and LF. Entries of Header whose names are in replaced
	// are not sent. The middleware does not read Header after a call, even if there are no lines.
	SetHeaderLines(lines []byte, replaced []string)

	// Unserved reports whether the request was allowed, but the proxy has not sent any part of it to a service.
	Unserved() bool
}

// headerLines returns w as a ProxyWriter and its buffer for header lines. It returns nil if w does not accept header
// lines.
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
