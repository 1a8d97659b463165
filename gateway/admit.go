package gateway

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/identity"
)

// ServeHTTP serves a request: it brings it into the form in which it will be sent on, asks the limiter, and sends it on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := exchanges.Get().(*exchange)
	ex.begin(g, w, r)
	defer ex.end(r)
	if ex.admit(r) {
		g.limited.ServeHTTP(ex, r)
	}
	ex.complete = true
}

var (
	attrHost = headgate.Attribute{Kind: headgate.AttrHost}
	attrPath = headgate.Attribute{Kind: headgate.AttrPath}
)

// admit reads what must be known of every request and removes what nobody behind us may read. It reports whether the request
// is good; if not, it has been answered. Nothing before the limiter costs more than a refusal by it.
func (ex *exchange) admit(r *http.Request) bool {
	g := ex.g
	switch r.Method {
	case http.MethodConnect, http.MethodTrace, "PRI":
		// A tunnel would pass all limits by, and an echo of headers would tell the client what proxies have added.
		ex.Header()["Allow"] = []string{"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}
		ex.answer(ex, http.StatusMethodNotAllowed, r.Method+" is not done here.")
		return false
	}
	if err := checkTarget(r); err != nil {
		ex.refuse(err)
		return false
	}
	g.identity.Read(r, &ex.who)
	if ex.plain = http1.IsPlainConnection(r.Header["Connection"]); !ex.plain {
		// Only here something can be named that tells who is asking; identity knows what that is.
		if err := ex.who.Malformed(); err != nil {
			ex.refuse(err)
			return false
		}
	}
	ex.fromProxy = ex.who.FromProxy()
	ex.client = ex.who.Addr()
	if !ex.cleanHeader(r) {
		return false
	}
	ex.takeID(r)
	ex.host, _ = ex.who.Get(attrHost)
	ex.path, _ = ex.who.Get(attrPath)
	if ex.path == "" || ex.host == "" && r.Host != "" {
		ex.refuse(ex.who.Malformed())
		return false
	}
	if ex.path == "*" {
		if r.Method != http.MethodOptions {
			ex.refuse(&identity.RequestError{Part: "target", Value: `"*"`, Want: "a path, but for OPTIONS"})
			return false
		}
		ex.target = "*"
		return true
	}
	var err error
	if ex.target, err = setPath(r, ex.path); err != nil {
		ex.refuse(err)
		return false
	}
	ex.route = g.routes.find(ex.host, ex.path)
	if ex.route != nil {
		if most := ex.route.config.MaxBody; most > 0 && r.ContentLength > most {
			ex.fault = errBodyTooLarge
			ex.answer(ex, http.StatusRequestEntityTooLarge, "The body may have at most "+strconv.FormatInt(most, 10)+" bytes.")
			return false
		}
	}
	return true
}

// hopByHop has what the removed hop-by-hop headers of a request said.
type hopByHop struct {
	upgrade  string // the protocol to upgrade to, if the client asks for one that is allowed
	trailers bool   // the client accepts trailers
}

// cleanHeader removes headers that are for one connection only, and those that only proxies may send. It reports whether the
// header is short enough.
func (ex *exchange) cleanHeader(r *http.Request) bool {
	g, h := ex.g, r.Header
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
				ex.hops.trailers = http1.HasElement(lines, "trailers")
			case "Upgrade":
				if upgrade && !ex.http2 && r.ContentLength == 0 {
					ex.hops.upgrade = http1.ChooseUpgrade(lines, g.config.Upgrades)
				}
			}
			delete(h, name)
		case !g.config.KeepUnderscores && strings.IndexByte(name, '_') >= 0, !ex.fromProxy && g.proxyHeaders.has(name):
			delete(h, name)
		}
	}
	if size > g.config.MaxHeader {
		ex.answer(ex, http.StatusRequestHeaderFieldsTooLarge, "The header may have at most "+strconv.Itoa(g.config.MaxHeader)+" bytes.")
		return false
	}
	if ex.hops.trailers {
		h["Te"] = trailersValue
	}
	if ex.hops.upgrade != "" {
		h["Upgrade"] = []string{ex.hops.upgrade} // what will be asked for, so that rules can go by it
	}
	return true
}

var trailersValue = []string{"trailers"}

// takeID takes the id that a trusted proxy has given the request, or makes one.
func (ex *exchange) takeID(r *http.Request) {
	if lines := r.Header[ex.g.idHeader]; len(lines) > 0 {
		if ex.fromProxy && len(lines) == 1 && isSane(lines[0]) {
			ex.id = lines
			return
		}
		delete(r.Header, ex.g.idHeader) // so that nobody reads it
	}
	ex.id = newID()
}

// forwardingPrefix is that of headers by which proxies tell what they have seen.
const forwardingPrefix = "X-Forwarded-"

// proxyHeaders are the headers that only proxies may send.
type proxyHeaders struct {
	names   map[string]bool // canonical
	letters uint32          // with which they begin, as most headers begin with another
}

func newProxyHeaders(names []string) proxyHeaders {
	p := proxyHeaders{names: make(map[string]bool, len(names)), letters: 1 << (forwardingPrefix[0] & 31)}
	for _, name := range append([]string{headerForwarded}, names...) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		p.names[name] = true
		p.letters |= 1 << (name[0] & 31)
	}
	return p
}

func (p *proxyHeaders) has(canonical string) bool {
	if canonical == "" || p.letters&(1<<(canonical[0]&31)) == 0 {
		return false
	}
	return strings.HasPrefix(canonical, forwardingPrefix) || p.names[canonical]
}
