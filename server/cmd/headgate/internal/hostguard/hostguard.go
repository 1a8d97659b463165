// Package hostguard protects listeners against web pages of other sites that use the browser of a user on the network.
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

// Names are the host names that a listener accepts. The check prevents DNS rebinding: an attacker can point the host
// name of a page at this listener, so that a browser treats both as the same origin, but the browser still sends that
// name as Host.
type Names struct {
	allowed []string // names in the configuration; if there are any, only these and own are accepted
	own     []string // names of this node, which are always accepted
	hint    string   // advice in the response to a request with another name
	// exemptPath, if not empty, is a path that is not checked. Its callers are proxies, which send the Host and Origin of
	// their clients.
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

// Guard returns a handler that refuses requests with other host names, and cross-origin requests of browsers that may
// change something. It passes all other requests to next.
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

// accepts reports whether the Host of a request is accepted. Unless names are configured, callers other than browsers
// may use any name, because probes and scrapers use names of services. So may browsers with TLS, because they compare
// the name with the certificate.
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

// privateHosts are patterns of names that, like names without a dot, public DNS does not resolve.
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

// browserHeaders are headers that identify browsers. A browser sends at least one of them with each request, and a page
// cannot prevent that. Probes, scrapers and command-line clients send none of them. User-Agent is not among them,
// because some scrapers claim to be Mozilla.
var browserHeaders = []string{
	"Accept-Language", "Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode",
	"Upgrade-Insecure-Requests",
}

func fromBrowser(r *http.Request) bool {
	return slices.ContainsFunc(browserHeaders, func(name string) bool { return len(r.Header[name]) > 0 })
}
