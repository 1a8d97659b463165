// Package hostguard refuses requests with a foreign host name, and requests of pages of other sites.
package hostguard

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/service/httpapi"
)

// Names are the host names that a listener accepts, to prevent DNS rebinding: if a page's host name is pointed at
// this listener, a browser treats the page as same-origin, but it still sends the page's name as Host.
type Names struct {
	allowed []string // listed in the configuration; if there are any, no other names are accepted
	own     []string // names of this node that need not be listed
	hint    string   // advice in the response to a name that is refused

	// exemptPath, if not empty, is a path that is not checked: its requests carry the Host and Origin of a proxy's client,
	// not the caller's.
	exemptPath string
}

// Admin returns the names of the admin listener.
func Admin(c *config.Config) *Names {
	return newNames(c, c.AdminAddr, Names{
		allowed: slices.Clone(c.Admin.Hosts), hint: "If it should, list it in admin.hosts of the configuration.",
	})
}

// API returns the names of the decision service's HTTP listener.
func API(c *config.Config) *Names {
	return newNames(c, c.APIAddr, Names{
		hint:       "Browsers call it by an IP address, localhost, the name of this node, or over TLS.",
		exemptPath: httpapi.ForwardAuthPath,
	})
}

func newNames(c *config.Config, addr string, h Names) *Names {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		h.own = append(h.own, host)
	}
	if u, err := url.Parse(c.RulesService.Address); err == nil {
		h.own = append(h.own, u.Hostname())
	}
	if name, err := os.Hostname(); err == nil {
		h.own = append(h.own, name)
	}
	for _, list := range [][]string{h.allowed, h.own} {
		for i := range list {
			list[i] = strings.TrimSuffix(strings.ToLower(list[i]), ".")
		}
	}
	return &h
}

// Guard returns a handler that calls next unless the request names a host that is not accepted, or is a cross-origin
// request of a browser that would change something. The Content-Type of other callers does not matter.
func (h *Names) Guard(next http.Handler) http.Handler {
	var crossOrigin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Content-Type-Options"] = noSniff
		switch {
		case h.exemptPath != "" && r.URL.Path == h.exemptPath:
			next.ServeHTTP(w, r)
		case !h.accepts(r):
			WriteProblem(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("This listener does not accept the host name %s. %s", rules.Quote(hostOf(r)), h.hint))
		case crossOrigin.Check(r) != nil:
			WriteProblem(w, http.StatusForbidden,
				"A page of another site has sent this request. Only pages of this listener may.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var noSniff = []string{"nosniff"}

// WriteProblem responds with problem+json.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // fails only if the client has disconnected
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// accepts reports whether the Host of a request is a name of this listener. Unless names are configured, callers other
// than browsers may use any name, since probes and scrapers use the name of a service. With TLS, the browser has
// checked the name against the certificate.
func (h *Names) accepts(r *http.Request) bool {
	host := hostOf(r)
	switch {
	case host == "", isAddress(host), host == "localhost", strings.HasSuffix(host, ".localhost"),
		slices.Contains(h.own, host):
		return true
	case len(h.allowed) > 0:
		return slices.ContainsFunc(h.allowed, func(pattern string) bool { return matchesHost(host, pattern) })
	}
	return r.TLS != nil || !strings.Contains(host, ".") || !fromBrowser(r) ||
		slices.ContainsFunc(privateHosts, func(pattern string) bool { return matchesHost(host, pattern) })
}

// privateHosts are names that public DNS does not resolve, like names without a dot.
var privateHosts = []string{"*.internal", "*.svc", "*.cluster.local"}

// hostOf returns the Host of a request in lower case, without its port.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// matchesHost reports whether a host matches a pattern: a name, *.example.com for all subdomains, or * for all.
func matchesHost(host, pattern string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, suffix)
	}
	return host == pattern
}

// browserHeaders are headers of which a browser sends at least one with each request. A page cannot prevent this.
// Probes, scrapers and command-line clients send none of them. User-Agent is no evidence: some scrapers claim to be
// Mozilla.
var browserHeaders = []string{
	"Accept-Language", "Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode",
	"Upgrade-Insecure-Requests",
}

func fromBrowser(r *http.Request) bool {
	return slices.ContainsFunc(browserHeaders, func(name string) bool { return len(r.Header[name]) > 0 })
}
