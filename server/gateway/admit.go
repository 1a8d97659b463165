package gateway

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/requestid"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// ServeHTTP converts a request to the form in which it is forwarded, calls the limiter, and forwards the request if it
// is allowed. A Gateway can be the handler of another server, but that server must limit its connections itself.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := exchanges.Get().(*exchange)
	if g.config.Tracer != nil {
		r = ex.startSpan(g, r)
	}
	ex.begin(g, w, r)
	defer ex.end(r)
	if ex.admit(r) {
		g.limited.ServeHTTP(ex, r)
	}
	ex.response.complete = true
}

var (
	attrHost = headgate.Attribute{Kind: headgate.AttrHost}
	attrPath = headgate.Attribute{Kind: headgate.AttrPath}
)

// admit identifies the client, finds the route, and removes headers that must not be forwarded. It returns false if it
// has refused the request. It runs before the limiter, so it must be cheap: denied requests cost this much, too.
func (ex *exchange) admit(r *http.Request) bool {
	g, info := ex.g, &ex.request
	switch r.Method {
	case http.MethodConnect, http.MethodTrace, "PRI":
		// A tunnel would bypass all limits. TRACE would show the client the headers that proxies have added.
		ex.Header()["Allow"] = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}
		ex.respond(ex, http.StatusMethodNotAllowed, r.Method+" is not allowed.")
		return false
	}
	if err := checkTarget(r); err != nil {
		ex.refuse(err)
		return false
	}
	span := g.config.Tracer.StartPart(r.Context(), traces.Identify)
	g.identity.Read(r, &info.attributes)
	span.End()
	if info.connectionPlain = http1.IsPlainConnection(r.Header["Connection"]); !info.connectionPlain {
		// Connection may name a header that identifies the client. Validate refuses such a request.
		if err := info.attributes.Validate(); err != nil {
			ex.refuse(err)
			return false
		}
	}
	info.fromProxy = info.attributes.FromProxy()
	info.client = info.attributes.Addr()
	if !ex.cleanHeader(r) {
		return false
	}
	ex.setID(r)
	info.host, _ = info.attributes.Get(attrHost)
	info.path, _ = info.attributes.Get(attrPath)
	if info.path == "" || info.host == "" && r.Host != "" {
		ex.refuse(info.attributes.Validate())
		return false
	}
	if info.path == "*" {
		if r.Method != http.MethodOptions {
			ex.refuse(&identity.RequestError{Part: "target", Value: `"*"`, Want: "a path, unless the method is OPTIONS"})
			return false
		}
		info.target = "*"
		return true
	}
	var err error
	if info.target, err = setPath(r, info.path); err != nil {
		ex.refuse(err)
		return false
	}
	if ex.route = g.routes.find(info.host, info.path); ex.route != nil {
		if limit := ex.route.config.MaxBody; limit > 0 && r.ContentLength > limit {
			ex.forward.fault = errBodyTooLarge
			ex.respond(ex, http.StatusRequestEntityTooLarge, tooLarge("body", limit))
			return false
		}
	}
	return true
}

// removedHeaders has the values of hop-by-hop headers that were removed from a request and are needed later.
type removedHeaders struct {
	upgrade  string // from Upgrade: the protocol that the client asks for, if it is allowed; else empty
	trailers bool   // from TE: the client accepts trailers
}

// cleanHeader removes hop-by-hop headers, and headers that only proxies may send. If the header is too large, it
// refuses the request and returns false.
func (ex *exchange) cleanHeader(r *http.Request) bool {
	g, h, info := ex.g, r.Header, &ex.request
	upgrade := false
	if lines := h["Connection"]; len(lines) > 0 {
		upgrade = http1.RemoveNominated(h)
	}
	size := len(r.Method) + len(r.RequestURI) + len(r.Host) + 16
	for name, lines := range h {
		for _, line := range lines {
			size += len(name) + len(line) + 4
		}
		switch {
		case http1.IsHopByHop(name):
			switch name {
			case "Te":
				info.removed.trailers = http1.HasElement(lines, "trailers")
			case "Upgrade":
				if upgrade && !ex.http2 && r.ContentLength == 0 {
					info.removed.upgrade = http1.ChooseUpgrade(lines, g.config.Upgrades)
				}
			}
			delete(h, name)
		case g.removesUnderscore(name), !info.fromProxy && g.proxyHeaders.has(name):
			delete(h, name)
		}
	}
	if size > g.config.MaxHeader {
		ex.respond(ex, http.StatusRequestHeaderFieldsTooLarge, tooLarge("header", int64(g.config.MaxHeader)))
		return false
	}
	if info.removed.trailers {
		h["Te"] = trailersValue
	}
	if info.removed.upgrade != "" {
		h["Upgrade"] = []string{info.removed.upgrade} // rules may read it; send removes it
	}
	return true
}

var trailersValue = []string{"trailers"}

// removesUnderscore reports whether a header is removed because its name has an underscore.
func (g *Gateway) removesUnderscore(name string) bool {
	return !g.config.KeepUnderscores && strings.IndexByte(name, '_') >= 0
}

// setID takes the request's id from a trusted proxy, or creates one.
func (ex *exchange) setID(r *http.Request) {
	if lines := r.Header[ex.g.idHeader]; len(lines) > 0 {
		if ex.request.fromProxy && len(lines) == 1 && requestid.IsValid(lines[0]) {
			ex.request.id = lines
			return
		}
		delete(r.Header, ex.g.idHeader) // so that no handler reads it
	}
	ex.request.id = requestid.New()
}

// forwardingPrefix is the prefix of the names of headers in which proxies describe the client's request.
const forwardingPrefix = "X-Forwarded-"

// proxyHeaders are the canonical names of the headers that only proxies may send, in addition to X-Forwarded-*. For so
// few names, a list is faster than a map.
type proxyHeaders []string

func newProxyHeaders(names []string) proxyHeaders {
	p := proxyHeaders{headerForwarded}
	for _, name := range names {
		p = append(p, textproto.CanonicalMIMEHeaderKey(name))
	}
	return p
}

func (p proxyHeaders) has(canonical string) bool {
	return strings.HasPrefix(canonical, forwardingPrefix) || slices.Contains(p, canonical)
}
