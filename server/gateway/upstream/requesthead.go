package upstream

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// Head is the part of the forwarded request that the caller of Forward sets. The rest is copied from the client's
// request.
type Head struct {
	// Target is the path and query, or * for OPTIONS. Default: the path and query of the request's URL.
	Target string
	// Host is the Host header. Default: the request's Host.
	Host string
	// Fields replace the request's headers and trailers of the same names. If several have the same name, all are sent. A
	// field without a value is not sent, so it removes the request's header. The request's header map is not changed.
	Fields []Field
}

// A Field is one header line.
type Field struct{ Name, Value string }

// appendHead appends the head of the request to dst, without hop-by-hop fields.
func appendHead(dst []byte, r *http.Request, h *Head, b *requestBody) ([]byte, error) {
	method, target, host := r.Method, h.Target, h.Host
	if method == "" {
		method = http.MethodGet
	}
	if target == "" && r.URL != nil {
		target = r.URL.RequestURI()
	}
	if host == "" {
		host = r.Host
	}
	switch {
	case !http1.IsToken(method):
		return dst, errMethod
	case method == http.MethodConnect:
		return dst, errConnect
	case !isTarget(target, method):
		return dst, errTarget
	case !isHost(host):
		return dst, errHost
	}
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, host...)
	dst = append(dst, "\r\n"...)
	dst = b.appendFraming(dst, method, r, h)
	dst, err := h.appendClientFields(dst, r)
	if err != nil {
		return dst, err
	}
	if dst, err = h.appendFields(dst); err != nil {
		return dst, err
	}
	return append(dst, "\r\n"...), nil
}

// appendClientFields appends the headers of the client's request, without hop-by-hop fields and those that h sets.
func (h *Head) appendClientFields(dst []byte, r *http.Request) ([]byte, error) {
	connection := r.Header["Connection"] // lists the names of further hop-by-hop fields
	for name, values := range r.Header {
		if http1.IsReserved(name) || h.sets(name) {
			continue
		}
		if connection != nil && http1.HasElement(connection, name) {
			continue
		}
		if !http1.IsToken(name) {
			return dst, http1.ErrFieldName
		}
		for _, value := range values {
			if !http1.IsValue(value) {
				return dst, http1.ErrFieldValue
			}
			dst = http1.AppendField(dst, name, value)
		}
	}
	// Trailers are forwarded to the client, so the upstream may send them if the client accepts them.
	if te := r.Header["Te"]; te != nil && http1.HasElement(te, "trailers") {
		dst = append(dst, "TE: trailers\r\n"...)
	}
	return dst, nil
}

// appendFields appends the headers that h sets.
func (h *Head) appendFields(dst []byte) ([]byte, error) {
	for _, f := range h.Fields {
		switch {
		case f.Value == "":
			continue
		case !http1.IsToken(f.Name):
			return dst, http1.ErrFieldName
		case http1.IsReserved(f.Name):
			return dst, errFraming
		case !http1.IsValue(f.Value):
			return dst, http1.ErrFieldValue
		}
		dst = http1.AppendField(dst, f.Name, f.Value)
	}
	return dst, nil
}

// sets reports whether the caller sets or removes headers of this name.
func (h *Head) sets(name string) bool {
	for i := range h.Fields {
		if n := h.Fields[i].Name; len(n) == len(name) && strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// isTarget reports whether a target is a valid path and query, or the asterisk of OPTIONS.
func isTarget(target, method string) bool {
	if target == "*" {
		return method == http.MethodOptions
	}
	if target == "" || target[0] != '/' {
		return false
	}
	for i := range len(target) {
		if !http1.IsTargetByte(target[i]) {
			return false
		}
	}
	return true
}

// isHost reports whether a Host header consists only of bytes that names, addresses and ports may contain. An empty
// value is valid.
func isHost(host string) bool {
	for i := range len(host) {
		c := host[i]
		if !http1.IsTokenByte(c) && strings.IndexByte(":[]();,=", c) < 0 {
			return false
		}
	}
	return true
}

// appendFraming appends the headers that determine where the request ends.
func (b *requestBody) appendFraming(dst []byte, method string, r *http.Request, h *Head) []byte {
	switch {
	case b.mode == noBody:
		switch method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			// Many servers require the header for these methods.
			dst = append(dst, "Content-Length: 0\r\n"...)
		}
	case b.length >= 0:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, b.length, 10)
		dst = append(dst, "\r\n"...)
	default:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
		separator := "Trailer: "
		for name := range r.Trailer {
			if http1.MayTrail(name) && !h.sets(name) {
				dst = append(dst, separator...)
				dst = append(dst, name...)
				separator = ", "
			}
		}
		if separator == ", " { // at least one name was appended
			dst = append(dst, "\r\n"...)
		}
	}
	if b.expectsContinue {
		dst = append(dst, "Expect: 100-continue\r\n"...)
	}
	return dst
}

// appendTrailers appends the trailers of a chunked body, and the empty line that ends them.
func appendTrailers(dst []byte, trailers http.Header, h *Head) ([]byte, error) {
	for name, values := range trailers {
		if !http1.MayTrail(http.CanonicalHeaderKey(name)) || h.sets(name) {
			continue
		}
		for _, value := range values {
			if !http1.IsValue(value) {
				return dst, http1.ErrFieldValue
			}
			dst = http1.AppendField(dst, name, value)
		}
	}
	return append(dst, "\r\n"...), nil
}
