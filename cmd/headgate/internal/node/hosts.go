package node

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

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/service/httpapi"
)

// hosts are the names of a listener. A page of another site whose name is made to point to this host (DNS rebinding) is,
// to a browser, a page of this listener; but the browser still sends the page's host.
type hosts struct {
	given []string // listed in the configuration; if there are any, no other names are accepted
	own   []string // names of this node that need not be listed
	hint  string   // what to do about a name that is refused

	// proxied, if any, is a path whose requests carry the headers of a proxy's client, so that their Host and Origin are
	// not the caller's.
	proxied string
}

// adminHosts are the names of the admin listener.
func adminHosts(c *config.Config) *hosts {
	return newHosts(c, c.AdminAddr, hosts{
		given: slices.Clone(c.Admin.Hosts), hint: "If it should, list it in admin.hosts of the configuration.",
	})
}

// apiHosts are the names of the decision service's HTTP listener.
func apiHosts(c *config.Config) *hosts {
	return newHosts(c, c.APIAddr, hosts{
		hint: "Browsers call it by an IP address, localhost, the name of this node, or over TLS.", proxied: httpapi.ForwardAuthPath,
	})
}

func newHosts(c *config.Config, addr string, h hosts) *hosts {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		h.own = append(h.own, host)
	}
	if u, err := url.Parse(c.RulesService.Address); err == nil {
		h.own = append(h.own, u.Hostname())
	}
	if name, err := os.Hostname(); err == nil {
		h.own = append(h.own, name)
	}
	for _, list := range [][]string{h.given, h.own} {
		for i := range list {
			list[i] = strings.TrimSuffix(strings.ToLower(list[i]), ".")
		}
	}
	return &h
}

// guard returns a handler that refuses two kinds of requests before next sees them: those that call the listener by a
// name that is not its own, and those with which a page of another site would change something. Requests that no browser
// sent pass, whatever their Content-Type.
func (h *hosts) guard(next http.Handler) http.Handler {
	var pages http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Content-Type-Options"] = noSniff
		switch {
		case h.proxied != "" && r.URL.Path == h.proxied:
			next.ServeHTTP(w, r)
		case !h.admits(r):
			refuse(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("Nothing here goes by the name %s. %s", rules.Quote(hostOf(r)), h.hint))
		case pages.Check(r) != nil:
			refuse(w, http.StatusForbidden, "A page of another site has sent this request. Only pages of this listener may.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var noSniff = []string{"nosniff"}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // who has gone has no use for it
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// admits reports whether a request calls this listener by a name of its own. Unless names are listed, callers other than
// browsers may use any name: probes and scrapers know the listener by the name of a service. With TLS, the browser has
// checked the name against the certificate.
func (h *hosts) admits(r *http.Request) bool {
	host := hostOf(r)
	switch {
	case host == "", isAddress(host), host == "localhost", strings.HasSuffix(host, ".localhost"), slices.Contains(h.own, host):
		return true
	case len(h.given) > 0:
		return slices.ContainsFunc(h.given, func(pattern string) bool { return fits(host, pattern) })
	}
	return r.TLS != nil || !strings.Contains(host, ".") || slices.ContainsFunc(private, func(pattern string) bool { return fits(host, pattern) }) || !fromBrowser(r)
}

// private are names that nobody can have lead anywhere from outside, as none without a dot can.
var private = []string{"*.internal", "*.svc", "*.cluster.local"}

// hostOf returns the host that a request names, without its port.
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

// fits reports whether a host is one of a pattern: a name, *.example.com for all below one, or * for all.
func fits(host, pattern string) bool {
	if below, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, below)
	}
	return host == pattern
}

// browserHeaders are those of which a browser sends one with each request, whatever the page that makes it wants. Probes, scrapers and
// commands send none; some of them call themselves Mozilla.
var browserHeaders = []string{"Accept-Language", "Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Upgrade-Insecure-Requests"}

func fromBrowser(r *http.Request) bool {
	return slices.ContainsFunc(browserHeaders, func(name string) bool { return len(r.Header[name]) > 0 })
}
