package gateway

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/gateway/upstream"
)

// The headers that tell an upstream what it cannot see itself.
const (
	headerForwardedFor   = "X-Forwarded-For"
	headerForwardedHost  = "X-Forwarded-Host"
	headerForwardedProto = "X-Forwarded-Proto"
	headerForwarded      = "Forwarded"
	headerVia            = "Via"
)

// fields are the headers that we set on a request that is sent on. They are apart from the request's own, which stay as the
// limiter has seen them.
type fields struct {
	room [8]upstream.Field
	n    int
}

// set replaces a header, or removes it if there is nothing to say.
func (f *fields) set(name, value string) {
	f.room[f.n] = upstream.Field{Name: name, Value: value}
	f.n++
}

func (f *fields) list() []upstream.Field { return f.room[:f.n] }

// setFields tells the upstream who is asking. What a trusted proxy has said stays, and who is connected to us is added;
// what others have said is replaced.
func (ex *exchange) setFields(r *http.Request) {
	h, f, config := r.Header, &ex.fields, &ex.g.config
	f.set(ex.g.idHeader, ex.id[0])
	peer := peerOf(r.RemoteAddr)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if !ex.fromProxy {
		f.set(headerForwardedFor, peer)
		f.set(headerForwardedHost, r.Host)
		f.set(headerForwardedProto, scheme)
		if config.SendForwarded {
			f.set(headerForwarded, forwardedElement(peer, r.Host, scheme))
		}
	} else {
		f.set(headerForwardedFor, appendElement(h[headerForwardedFor], peer))
		if !isOne(h[headerForwardedHost]) {
			f.set(headerForwardedHost, r.Host)
		}
		if !isScheme(h[headerForwardedProto]) {
			f.set(headerForwardedProto, scheme)
		}
		if earlier := h[headerForwarded]; len(earlier) > 0 || config.SendForwarded {
			f.set(headerForwarded, appendElement(earlier, forwardedElement(peer, r.Host, scheme)))
		}
	}
	if config.Via != "" {
		f.set(headerVia, appendElement(h[headerVia], viaElement(r.ProtoMajor, r.ProtoMinor, config.Via)))
	}
}

// peerOf returns the address in a RemoteAddr, without port and zone, or nothing if it is none, as with sockets of Unix.
func peerOf(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	if ap.Addr().Is4() { // which is read in its one form only
		return remote[:strings.LastIndexByte(remote, ':')]
	}
	return ap.Addr().WithZone("").Unmap().String()
}

// appendElement adds an element to a list that may be on several lines.
func appendElement(lines []string, element string) string {
	switch {
	case len(lines) == 0:
		return element
	case element == "":
		return strings.Join(lines, ", ")
	case len(lines) == 1 && lines[0] == "":
		return element
	default:
		return strings.Join(lines, ", ") + ", " + element
	}
}

// isOne reports whether a header is there once and says something.
func isOne(lines []string) bool { return len(lines) == 1 && lines[0] != "" }

func isScheme(lines []string) bool {
	return len(lines) == 1 && (strings.EqualFold(lines[0], "https") || strings.EqualFold(lines[0], "http"))
}

// forwardedElement returns what we add to Forwarded, in the form of RFC 7239.
func forwardedElement(peer, host, scheme string) string {
	b := make([]byte, 0, 96)
	b = append(b, "for="...)
	switch {
	case peer == "":
		b = append(b, "unknown"...)
	case strings.IndexByte(peer, ':') >= 0:
		b = append(b, `"[`...)
		b = append(b, peer...)
		b = append(b, `]"`...)
	default:
		b = append(b, peer...)
	}
	if host != "" {
		b = append(b, ";host="...)
		if http1.IsToken(host) {
			b = append(b, host...)
		} else { // hosts have neither quotes nor backslashes, as identity has seen to
			b = append(b, '"')
			b = append(b, host...)
			b = append(b, '"')
		}
	}
	b = append(b, ";proto="...)
	b = append(b, scheme...)
	return string(b)
}

func viaElement(major, minor int, name string) string {
	if major >= 2 {
		return string(rune('0'+major%10)) + ".0 " + name
	}
	return "1." + string(rune('0'+minor%10)) + " " + name
}
