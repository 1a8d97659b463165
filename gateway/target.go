package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/identity"
)

// setPath replaces the path of a request by its canonical form, so that rules, routes and the upstream all see the same
// one. It returns the target of the request line to the upstream.
func setPath(r *http.Request, path string) (target string, err error) {
	u := r.URL
	query, clean := escapeQuery(u.RawQuery)
	if !clean {
		u.RawQuery = query
	}
	if sent := r.RequestURI; clean && strings.HasPrefix(sent, path) && (len(sent) == len(path) || sent[len(path)] == '?') {
		return sent, nil // the common case
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return "", &identity.RequestError{Part: "path", Want: "one that can be decoded"}
	}
	u.Path, u.RawPath = plain, ""
	if u.EscapedPath() != path {
		u.RawPath = path
	}
	target = path
	if u.RawQuery != "" || u.ForceQuery {
		target += "?" + u.RawQuery
	}
	r.RequestURI = target
	return target, nil
}

// escapeQuery escapes bytes that are invalid in a query and could be read in two ways. net/http does not refuse them.
func escapeQuery(query string) (escaped string, clean bool) {
	i := 0
	for i < len(query) && http1.IsTargetByte(query[i]) {
		i++
	}
	if i == len(query) {
		return query, true
	}
	const digits = "0123456789ABCDEF"
	b := make([]byte, i, len(query)+16)
	copy(b, query)
	for ; i < len(query); i++ {
		if c := query[i]; http1.IsTargetByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b), false
}

// checkTarget refuses a request target that is neither a path nor an http or https URL.
func checkTarget(r *http.Request) error {
	switch u := r.URL; {
	case u.Opaque != "":
		return &identity.RequestError{Part: "target", Want: "a path, or a whole URL"}
	case u.User != nil:
		return &identity.RequestError{Part: "target", Want: "no user in it"}
	case u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https":
		return &identity.RequestError{Part: "target", Value: quote(u.Scheme), Want: "http or https"}
	default:
		return nil
	}
}
