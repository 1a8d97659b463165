package node

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// asBrowser are the headers of a browser that shows a page; asOther those of whoever else asks.
var (
	asBrowser = http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"}, "Accept-Language": {"en"}, "Accept": {"*/*"}}
	asOther   = http.Header{"User-Agent": {"Prometheus/3.0"}, "Accept": {"text/plain"}, "Accept-Encoding": {"gzip"}}
)

func TestNamesByWhichTheAdminListenerIsCalled(t *testing.T) {
	rebound := []string{"evil.example", "evil.example:8084", "127.0.0.1.evil.example", "localhost.evil.example", "EVIL.example.", "a.b.svc.evil.example"}
	for _, test := range []struct {
		what          string
		given         []string
		header        http.Header
		secure        bool
		passes, stops []string
	}{
		{what: "a browser", header: asBrowser, stops: rebound, passes: []string{
			"", "localhost", "localhost:8084", "LOCALHOST.", "x.localhost", "127.0.0.1:8084", "[::1]:8084", "[::1]", "192.0.2.1", "[fe80::1%25eth0]:8084",
			"headgate", "headgate:8084", "headgate.shop.svc", "headgate.shop.svc.cluster.local:8084", "ip-10-0-0-1.ec2.internal", "own.example.net:1", "Reached.example.net",
		}},
		{what: "a browser, with TLS", header: asBrowser, secure: true, passes: append(rebound, "rules.example.com")},
		{what: "others", header: asOther, passes: append(rebound, "rules.example.com", "headgate.shop")},
		{
			what: "a browser, with names", header: asBrowser, given: []string{"Rules.example.com", "*.example.org"}, stops: append(rebound, "headgate", "example.org", "xexample.org"),
			passes: []string{"rules.example.com:8084", "RULES.example.com.", "a.example.org", "a.b.example.org", "localhost", "127.0.0.1", "own.example.net", "reached.example.net"},
		},
		{what: "others, with names", header: asOther, secure: true, given: []string{"rules.example.com"}, stops: rebound, passes: []string{"", "rules.example.com", "[::1]:8084"}},
		{what: "a browser, with all names", header: asBrowser, given: []string{"*"}, passes: rebound},
	} {
		c := &config.Config{AdminAddr: "own.example.net:8084", Admin: config.Admin{Hosts: test.given}}
		c.RulesService.Address = "http://reached.example.net:8084"
		h := newHosts(c).guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		for status, names := range map[int][]string{http.StatusNoContent: test.passes, http.StatusMisdirectedRequest: test.stops} {
			for _, name := range names {
				r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
				r.Host, r.Header = name, test.header
				if test.secure {
					r.TLS = &tls.ConnectionState{}
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != status {
					t.Errorf("%s that calls it %q: got %d, want %d", test.what, name, w.Code, status)
				}
				if w.Code == http.StatusMisdirectedRequest && (!strings.Contains(w.Body.String(), "admin.hosts") || w.Header().Get("Content-Type") != "application/problem+json") {
					t.Errorf("%q: got %s, want a problem that says what to do", name, w.Body)
				}
			}
		}
	}
}

// Whatever a page does, its browser sends one of these.
func TestAnyMarkOfABrowserIsEnough(t *testing.T) {
	h := newHosts(&config.Config{AdminAddr: "127.0.0.1:0"})
	for _, name := range browserHeaders {
		r := httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody)
		r.Host = "evil.example"
		r.Header[name] = []string{""}
		if h.admits(r) {
			t.Errorf("with %s alone it passes", name)
		}
	}
}
