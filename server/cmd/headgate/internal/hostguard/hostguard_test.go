package hostguard

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

// asBrowser are the headers of a browser that shows a page; asOther those of other clients.
var (
	asBrowser = http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"}, "Accept-Language": {"en"}, "Accept": {"*/*"}}
	asOther   = http.Header{"User-Agent": {"Prometheus/3.0"}, "Accept": {"text/plain"}, "Accept-Encoding": {"gzip"}}
)

func TestAdminListenerAcceptsItsHostNames(t *testing.T) {
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
		h := Admin(c).Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
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

func TestAnyBrowserHeaderIdentifiesABrowser(t *testing.T) {
	h := Admin(&config.Config{AdminAddr: "127.0.0.1:0"})
	for _, name := range browserHeaders {
		r := httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody)
		r.Host = "evil.example"
		r.Header[name] = []string{""}
		if h.accepts(r) {
			t.Errorf("with %s alone it passes", name)
		}
	}
}

func TestCrossOriginPagesCannotCallListeners(t *testing.T) {
	c := &config.Config{AdminAddr: "127.0.0.1:8084", APIAddr: "127.0.0.1:8081"}
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, test := range []struct {
		what, method, path, host string
		header                   http.Header
		admin, api               int
	}{
		{"curl -d", "POST", "/v1/ratelimit", "127.0.0.1:8081", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 204, 204},
		{"a service that uses a public name", "POST", "/v1/ratelimit", "limits.example.com", asOther, 204, 204},
		{
			"a form of another site", "POST", "/v1/ratelimit", "127.0.0.1:8081",
			http.Header{"Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"text/plain"}},
			403, 403,
		},
		{
			"a form of another port", "POST", "/v1/ratelimit", "127.0.0.1:8081",
			http.Header{"Sec-Fetch-Site": {"same-site"}, "Content-Type": {"text/plain"}},
			403, 403,
		},
		{"an old browser at another site", "POST", "/json", "localhost:8081", http.Header{"Origin": {"http://evil.example"}}, 403, 403},
		{"a sandboxed page", "POST", "/v1/ratelimit", "localhost:8081", http.Header{"Origin": {"null"}}, 403, 403},
		{"a page of the listener", "POST", "/v1/x", "localhost:8081", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://localhost:8081"}}, 204, 204},
		{"a link from another site", "GET", "/", "localhost:8081", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 204, 204},
		{"a page whose name points here", "POST", "/v1/ratelimit", "evil.example:8081", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 421, 421},
		{"a page whose name points here", "GET", "/openapi.json", "evil.example:8081", asBrowser, 421, 421},
		{
			"a proxy about its client, a page of another site", "POST", "/v1/forward-auth", "shop.example",
			http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://evil.example"}},
			421, 204,
		},
	} {
		for name, want := range map[string]int{"admin": test.admin, "api": test.api} {
			r := httptest.NewRequest(test.method, test.path, http.NoBody)
			r.Host, r.Header = test.host, test.header
			w := httptest.NewRecorder()
			h := Admin(c)
			if name == "api" {
				h = API(c)
			}
			h.Guard(answers).ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: %s: got %d, want %d: %s", name, test.what, w.Code, want, w.Body)
			}
		}
	}
}
