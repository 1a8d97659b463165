package downstream

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A requestHead is a parsed request line and header. Its spans are positions in the bytes of the head.
type requestHead struct {
	method, target http1.Span
	host           http1.Span
	fields         []http1.Field
	length         int64 // length of the body; 0 if there is none
	closes         bool  // the client wants the connection closed after the response
	plainPath      bool  // the path needs no decoding
	query          int   // the position of ? in the target; -1 if there is none
	noCache        bool  // Pragma is no-cache
}

// parse parses a complete head. It returns false if net/http must serve the request. It converts field names to
// canonical form in b itself; if net/http serves the request, it reads these names in the same way.
func (h *requestHead) parse(b []byte) bool {
	*h = requestHead{fields: h.fields[:0], query: -1}
	pos := h.parseLine(b)
	if pos == 0 {
		return false
	}
	for {
		next := bytes.IndexByte(b[pos:], '\n') + pos
		end := next - 1
		if end < pos || b[end] != '\r' {
			return false // the line ends in LF without CR
		}
		if end == pos {
			break
		}
		f, err := http1.ParseField(b, pos, end)
		if err != nil || !h.addField(b, f) {
			return false
		}
		pos = next + 1
	}
	return h.host.To > 0
}

// parseLine parses the request line, and returns the position of the next line, or 0 if net/http must serve the
// request.
func (h *requestHead) parseLine(b []byte) int {
	next := bytes.IndexByte(b, '\n') + 1
	end := next - 2
	const version = " HTTP/1.1"
	if end < len(version) || b[end] != '\r' || string(b[end-len(version):end]) != version {
		return 0
	}
	end -= len(version)
	i := 0
	for i < end && isMethodByte(b[i]) {
		i++
	}
	if i == 0 || i == end || b[i] != ' ' {
		return 0
	}
	if string(b[:i]) == http.MethodConnect {
		return 0
	}
	h.method = http1.Span{To: i}
	h.target = http1.Span{From: i + 1, To: end}
	target := b[i+1 : end]
	// net/url would parse the text after two slashes as a host.
	if len(target) == 0 || target[0] != '/' || len(target) > 1 && target[1] == '/' {
		return 0
	}
	h.plainPath = true
	for pos, c := range target {
		switch {
		case http1.IsPlainPathByte(c):
		case !http1.IsTargetByte(c):
			return 0
		case c == '?':
			h.query = pos
			if slices.ContainsFunc(target[pos:], func(c byte) bool { return !http1.IsTargetByte(c) }) {
				return 0
			}
			return next
		default:
			h.plainPath = false
		}
	}
	return next
}

// addField adds a header line. It returns false if net/http must serve the request.
func (h *requestHead) addField(b []byte, f http1.Field) bool {
	name, value := f.Name.Bytes(b), f.Value.Bytes(b)
	switch string(name) {
	case "Expect", "Trailer", "Upgrade", "Transfer-Encoding", "Http2-Settings":
		return false
	case "Host":
		if h.host.To > 0 || !isPlainHost(value) {
			return false
		}
		h.host = f.Value
		return true // Host is not in Request.Header
	case "Pragma":
		h.noCache = h.noCache || string(value) == "no-cache"
	case "Connection":
		h.closes = bytes.EqualFold(value, []byte("close"))
		if h.seen(b, "Connection") || !h.closes && !bytes.EqualFold(value, []byte("keep-alive")) {
			return false
		}
	case "Content-Length":
		n, ok := http1.ParseLength(value)
		if !ok || h.seen(b, "Content-Length") {
			return false
		}
		h.length = n
	}
	h.fields = append(h.fields, f)
	return true
}

// seen reports whether an earlier line has this name.
func (h *requestHead) seen(b []byte, name string) bool {
	return slices.ContainsFunc(h.fields, func(f http1.Field) bool { return string(f.Name.Bytes(b)) == name })
}

// fill sets the fields of r. text has the bytes of the head, and values has room for one value for each field. It
// returns false if the target is invalid.
func (h *requestHead) fill(r *http.Request, u *url.URL, text string, values []string) bool {
	r.Method, r.RequestURI, r.Host = h.method.Text(text), h.target.Text(text), h.host.Text(text)
	r.URL = u
	switch {
	case !h.plainPath, h.query == len(r.RequestURI)-1:
		parsed, err := url.ParseRequestURI(r.RequestURI)
		if err != nil {
			return false
		}
		r.URL = parsed
	case h.query >= 0:
		*u = url.URL{Path: r.RequestURI[:h.query], RawQuery: r.RequestURI[h.query+1:]}
	default:
		*u = url.URL{Path: r.RequestURI}
	}
	for i := range h.fields {
		f := &h.fields[i]
		name := f.Name.Text(text)
		if before, ok := r.Header[name]; ok {
			r.Header[name] = append(before, f.Value.Text(text))
			continue
		}
		values[i] = f.Value.Text(text)
		r.Header[name] = values[i : i+1 : i+1] // with capacity 1, so that append does not overwrite the next value
	}
	if h.noCache && r.Header["Pragma"][0] == "no-cache" {
		if _, ok := r.Header["Cache-Control"]; !ok {
			r.Header["Cache-Control"] = []string{"no-cache"} // net/http does the same
		}
	}
	r.ContentLength, r.Close = h.length, h.closes
	return true
}

// isMethodByte reports whether a byte may be in the name of a method that this package serves. All registered methods
// consist of such bytes.
func isMethodByte(c byte) bool { return c >= 'A' && c <= 'Z' || c == '-' }

// isPlainHost reports whether a host consists only of bytes of names, addresses and ports.
func isPlainHost(host []byte) bool {
	for _, c := range host {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '-', c == ':', c == '[', c == ']':
		default:
			return false
		}
	}
	return len(host) > 0
}
