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
)

// hosts are the names by which the admin listener is called. A page elsewhere whose name is made to lead here (DNS rebinding) is, to a
// browser, a page of this listener; but the browser names the page's host.
type hosts struct {
	given []string // that the configuration lists; if there are any, no others will do
	own   []string // that are this node's without being listed
}

func newHosts(c *config.Config) *hosts {
	h := &hosts{given: slices.Clone(c.Admin.Hosts)}
	if host, _, err := net.SplitHostPort(c.AdminAddr); err == nil {
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
	return h
}

// guard has a handler called only by names that are this listener's.
func (h *hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if h.admits(r) {
			next.ServeHTTP(w, r)
			return
		}
		refuse(w, http.StatusMisdirectedRequest,
			fmt.Sprintf("Nothing here goes by the name %s. If it should, list it in admin.hosts of the configuration.", rules.Quote(hostOf(r))))
	})
}

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

// admits tells whether a request calls this listener by a name of its own. Unless names are listed, whoever is no browser may use
// any, as probes and scrapers do that know it by the name of a service; and with a certificate, the browser has looked at the name.
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

// fits tells whether a host is one of a pattern: a name, *.example.com for all below one, or * for all.
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
