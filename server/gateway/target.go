package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// setPath replaces the path of a request by its canonical form, so that rules, routes and the upstream see the same
// path. It returns the target of the request line that the upstream gets.
func setPath(r *http.Request, path string) (target string, err error) {
	u := r.URL
	query, clean := http1.EscapeQuery(u.RawQuery)
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

// checkTarget refuses a request target that is neither a path nor an http or https URL.
func checkTarget(r *http.Request) error {
	switch u := r.URL; {
	case u.Opaque != "":
		return &identity.RequestError{Part: "target", Want: "a path or a complete URL"}
	case u.User != nil:
		return &identity.RequestError{Part: "target", Want: "a URL without a user"}
	case u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https":
		return &identity.RequestError{Part: "target", Value: quote(u.Scheme), Want: "http or https"}
	default:
		return nil
	}
}
