package gateway

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// Headers that tell an upstream about the client's connection to the gateway.
const (
	headerForwardedFor   = "X-Forwarded-For"
	headerForwardedHost  = "X-Forwarded-Host"
	headerForwardedProto = "X-Forwarded-Proto"
	headerForwarded      = "Forwarded"
	headerVia            = "Via"
)

// setField sets a header of the forwarded request, or removes it if the value is empty.
func (f *forwarding) setField(name, value string) {
	f.fields = append(f.fields, upstream.Field{Name: name, Value: value})
}

// setForwarded sets the headers about the client's connection. Headers of a trusted proxy are kept, and the address of
// the proxy is added to them. Headers of other clients are replaced.
func (ex *exchange) setForwarded(r *http.Request) {
	h, f, config := r.Header, &ex.forward, &ex.g.config
	f.setField(ex.g.idHeader, ex.request.id[0])
	peer := remoteAddress(r.RemoteAddr)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if !ex.request.fromProxy {
		f.setField(headerForwardedFor, peer)
		f.setField(headerForwardedHost, r.Host)
		f.setField(headerForwardedProto, scheme)
		if config.SendForwarded {
			f.setField(headerForwarded, http1.ForwardedElement(peer, r.Host, scheme))
		}
	} else {
		f.setField(headerForwardedFor, http1.AppendElement(h[headerForwardedFor], peer))
		if !hasOneValue(h[headerForwardedHost]) {
			f.setField(headerForwardedHost, r.Host)
		}
		if !isScheme(h[headerForwardedProto]) {
			f.setField(headerForwardedProto, scheme)
		}
		if earlier := h[headerForwarded]; len(earlier) > 0 || config.SendForwarded {
			f.setField(headerForwarded, http1.AppendElement(earlier, http1.ForwardedElement(peer, r.Host, scheme)))
		}
	}
	if config.Via != "" {
		f.setField(headerVia, http1.AppendElement(h[headerVia], http1.ViaElement(r.ProtoMajor, r.ProtoMinor, config.Via)))
	}
}

// remoteAddress returns the address in a Request.RemoteAddr, without port and zone. It is empty for a Unix socket.
func remoteAddress(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	if ap.Addr().Is4() { // an IPv4 address has only one valid form
		return remote[:strings.LastIndexByte(remote, ':')]
	}
	return ap.Addr().WithZone("").Unmap().String()
}

// hasOneValue reports whether a header has one value, which is not empty.
func hasOneValue(lines []string) bool { return len(lines) == 1 && lines[0] != "" }

func isScheme(lines []string) bool {
	return len(lines) == 1 && (strings.EqualFold(lines[0], "https") || strings.EqualFold(lines[0], "http"))
}
