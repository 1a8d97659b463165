package h2

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/requestcontext"
	"golang.org/x/net/http2/hpack"
)

// requestMemory is a request and the memory of its parts. It is reused for other requests.
type requestMemory struct {
	requestcontext.Request
	pseudo  pseudoFields
	values  []string
	url     url.URL
	length  int64 // the Content-Length; -1 if there is none
	expects bool  // the client waits for 100 Continue
}

// pseudoFields are the fields that replace the request line in HTTP/2, such as :method.
type pseudoFields struct{ method, scheme, authority, path string }

const (
	fewFields  = 8  // initial size of header maps; maps of up to 8 entries are faster
	manyFields = 64 // memory for more fields is not reused
)

// prepare prepares the memory for the next request.
func (m *requestMemory) prepare(o requestcontext.Owner) {
	m.Prepare(o)
	m.pseudo, m.length, m.expects = pseudoFields{}, -1, false
}

// fill sets the request from a header block. It returns false if the request is malformed (RFC 9113 section
// 8.1.1).
func (m *requestMemory) fill(c *Conn, b *headerBlock) bool {
	r := m.HTTP
	if len(b.fields) > cap(m.values) {
		m.values = make([]string, len(b.fields)+fewFields)
	}
	rest, ok := m.takePseudo(b.fields)
	if !ok {
		return false
	}
	host, hosts := "", 0
	for i := range rest {
		f := &rest[i]
		name := c.reader.canonical(f.Name)
		if name == "" || !isValue(f.Value) || !m.checkField(name, f.Value) {
			return false
		}
		if name == "Host" {
			host = f.Value
			hosts++
			continue
		}
		if before, ok := r.Header[name]; ok {
			r.Header[name] = append(before, f.Value)
			continue
		}
		m.values[i] = f.Value
		r.Header[name] = m.values[i : i+1 : i+1] // with capacity 1, so that append does not overwrite the next value
	}
	if m.pseudo.authority == "" {
		m.pseudo.authority = host
	}
	authority := m.pseudo.authority
	if hosts > 1 || hosts == 1 && !strings.EqualFold(host, authority) || strings.IndexByte(authority, '@') >= 0 {
		return false
	}
	if b.end && m.length > 0 {
		return false
	}
	if cookies := r.Header["Cookie"]; len(cookies) > 1 {
		r.Header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	m.takeTrailerNames()
	r.Method, r.Host, r.RemoteAddr, r.TLS = m.pseudo.method, m.pseudo.authority, c.link.Remote, c.link.TLS
	if !b.end {
		r.ContentLength = m.length
	}
	return m.setURL()
}

// takePseudo sets pseudo from the fields that begin with a colon, which must precede all other fields. It
// returns the other fields. It returns false if a pseudo field is missing or invalid.
func (m *requestMemory) takePseudo(fields []hpack.HeaderField) (rest []hpack.HeaderField, ok bool) {
	p := &m.pseudo
	for i := range fields {
		f := &fields[i]
		if f.Name == "" {
			return nil, false
		}
		if f.Name[0] != ':' {
			rest = fields[i:]
			break
		}
		var target *string
		switch f.Name {
		case ":method":
			target = &p.method
		case ":scheme":
			target = &p.scheme
		case ":authority":
			target = &p.authority
		case ":path":
			target = &p.path
		default:
			return nil, false
		}
		if *target != "" || f.Value == "" || !isValue(f.Value) {
			return nil, false
		}
		*target = f.Value
	}
	switch {
	case !http1.IsToken(p.method):
		return nil, false
	case p.method == http.MethodConnect:
		return rest, p.path == "" && p.scheme == "" && p.authority != ""
	case p.path == "" || p.path[0] != '/' && (p.path != "*" || p.method != http.MethodOptions):
		return nil, false
	default:
		return rest, p.scheme == "https" || p.scheme == "http"
	}
}

// checkField records Content-Length and Expect. It returns false if a field is not allowed in HTTP/2 or if its value is
// invalid.
func (m *requestMemory) checkField(name, value string) bool {
	if isConnectionField(name) {
		return false
	}
	switch name {
	case "Te":
		return value == "trailers"
	case "Content-Length":
		n, ok := http1.ParseLength(value)
		if !ok || m.length >= 0 {
			return false
		}
		m.length = n
	case "Expect":
		m.expects = m.expects || strings.EqualFold(value, "100-continue")
	}
	return true
}

// takeTrailerNames moves the names of announced trailers from the header to the Trailer of the
// request, as net/http does. It also removes Expect if this package handles it.
func (m *requestMemory) takeTrailerNames() {
	r := m.HTTP
	if m.expects {
		delete(r.Header, "Expect")
	}
	lines, ok := r.Header["Trailer"]
	if !ok {
		return
	}
	for name := range http1.Elements(lines...) {
		if name = http.CanonicalHeaderKey(name); http1.FramesMessage(name) {
			continue
		}
		if r.Trailer == nil {
			r.Trailer = make(http.Header)
		}
		r.Trailer[name] = nil
	}
	delete(r.Header, "Trailer")
}

// setURL sets the URL and RequestURI. It returns false if the path is invalid.
func (m *requestMemory) setURL() bool {
	r, path := m.HTTP, m.pseudo.path
	if m.pseudo.method == http.MethodConnect {
		r.URL, r.RequestURI = &url.URL{Host: m.pseudo.authority}, m.pseudo.authority
		return true
	}
	r.RequestURI, r.URL = path, &m.url
	end := plainPath(path)
	switch {
	case end == len(path):
		m.url = url.URL{Path: path}
		return true
	case end > 0 && path[end] == '?' && end < len(path)-1 && !strings.ContainsAny(path[end:], "#\t"):
		m.url = url.URL{Path: path[:end], RawQuery: path[end+1:]}
		return true
	}
	parsed, err := url.ParseRequestURI(path)
	if err != nil {
		return false
	}
	r.URL = parsed
	return true
}

// plainPath returns the length of the beginning of path that needs no decoding; 0 if path does not begin with
// exactly one slash.
func plainPath(path string) int {
	if path == "" || path[0] != '/' || len(path) > 1 && path[1] == '/' {
		return 0
	}
	for i := range len(path) {
		if !http1.IsPlainPathByte(path[i]) {
			return i
		}
	}
	return len(path)
}

// isValue reports whether a field value is valid. It may not begin or end with a space.
func isValue(v string) bool {
	if v == "" {
		return true
	}
	if isSpace(v[0]) || isSpace(v[len(v)-1]) {
		return false
	}
	return http1.IsValue(v)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
