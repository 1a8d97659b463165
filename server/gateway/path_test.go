package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
)

// The limiter, the routes and the upstream see the same path, for any spelling by the client.
func TestLimiterRouteAndUpstreamSeeSamePath(t *testing.T) {
	up := newRecorder(t)
	for _, tt := range []struct {
		rules        identity.PathRules
		sent, target string
	}{
		{sent: "/a/b", target: "/a/b"},
		{sent: "/a/../b", target: "/b"},
		{sent: "/../../etc/passwd", target: "/etc/passwd"},
		{sent: "/public/%2e%2e/admin", target: "/admin"},
		{sent: "/%61dmin", target: "/admin"},
		{sent: "//admin//x", target: "/admin/x"},
		{sent: "/./admin/.", target: "/admin/"},
		{sent: "/a%20b/%c3%a9", target: "/a%20b/%C3%A9"},
		{sent: "/a%3Fb%23c?d", target: "/a%3Fb%23c?d"},
		{sent: "/a#b", target: "/a%23b"},
		{sent: "/a?b#c", target: "/a?b%23c"},
		{sent: "/a?../x", target: "/a?../x"},
		{sent: "/a?\xff\"x", target: "/a?%FF\"x"},
		{sent: "/%2561", target: "/%2561"},
		{sent: "http://other.example/x/../y?z", target: "/y?z"},
		{sent: "http://other.example", target: "/"},
		{sent: "/a%2Fb", rules: identity.PathRules{EncodedSlash: identity.KeepSlash}, target: "/a%2Fb"},
		{sent: "/x/..%2Fadmin", rules: identity.PathRules{EncodedSlash: identity.DecodeSlash}, target: "/admin"},
		{sent: "//a//b", rules: identity.PathRules{KeepDoubleSlashes: true}, target: "//a//b"},
		{sent: "/a%3Bb/c", target: "/a%3Bb/c"},
		{sent: "/a;b/c?d;e", rules: identity.PathRules{Parameters: identity.KeepParameters}, target: "/a;b/c?d;e"},
		{sent: "/admin;a=b/x", rules: identity.PathRules{Parameters: identity.CutParameters}, target: "/admin/x"},
		{sent: "/admin;a=b?c;d", rules: identity.PathRules{Parameters: identity.CutParameters}, target: "/admin?c;d"},
		{sent: "/;a/admin/x", rules: identity.PathRules{Parameters: identity.CutParameters}, target: "/admin/x"},
		{sent: "/public/..;/admin", rules: identity.PathRules{Parameters: identity.CutParameters}, target: "/admin"},
	} {
		t.Run(tt.sent, func(t *testing.T) {
			c := before(up.URL)
			c.Identity = identify(t, identity.Config{Paths: tt.rules})
			var who identity.Attributes
			var saw, target string
			c.Limit = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					c.Identity.Read(r, &who)
					saw, _ = who.Get(attrPath)
					target = r.URL.RequestURI()
					next.ServeHTTP(w, r)
				})
			}
			g := start(t, c)
			a := exchangeRaw(t, g, lines("GET "+tt.sent+" HTTP/1.1", "Host: a.example"))
			if a.status != 200 {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			got := up.one(t)
			if got.target != tt.target {
				t.Errorf("the upstream saw %s, want %s", got.target, tt.target)
			}
			path, _, _ := strings.Cut(tt.target, "?")
			if saw != path || !strings.HasSuffix(target, tt.target) {
				t.Errorf("the limiter saw %s, %s, want %s, %s", saw, target, path, tt.target)
			}
		})
	}
}

func TestEmptyPathsAndAsterisks(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	if a := exchangeRaw(t, g, lines("OPTIONS * HTTP/1.1", "Host: a.example")); a.status != http.StatusNoContent {
		t.Errorf("OPTIONS *: %d, want 204", a.status)
	}
	if a := exchangeRaw(t, g, lines("GET * HTTP/1.1", "Host: a.example")); a.status != http.StatusBadRequest {
		t.Errorf("GET *: %d, want 400", a.status)
	}
	if a := exchangeRaw(t, g, lines("OPTIONS /x HTTP/1.1", "Host: a.example", "Max-Forwards: 0")); a.status != http.StatusNoContent {
		t.Errorf("Max-Forwards 0: %d, want 204", a.status)
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v, want nothing", seen)
	}
	exchangeRaw(t, g, lines("OPTIONS /x HTTP/1.1", "Host: a.example", "Max-Forwards: 7"))
	if got := up.one(t).header.Get("Max-Forwards"); got != "6" {
		t.Errorf("Max-Forwards %q, want 6", got)
	}
	if a := exchangeRaw(t, g, "GET /old HTTP/1.0\r\n\r\n"); a.status != 200 || !a.close {
		t.Errorf("HTTP/1.0 without a host: %d, close %v, want 200 and the end", a.status, a.close)
	}
	if got := up.one(t); got.target != "/old" {
		t.Errorf("the upstream saw %+v", got)
	}
}

func TestRoutesMatchHostThenPath(t *testing.T) {
	names := []struct{ host, path string }{
		{"", "/"},
		{"", "/api"},
		{"", "/api/v2"},
		{"", "/static/"},
		{"a.example", "/"},
		{"a.example", "/api"},
		{"b.example", "/only"},
		{"*.example", "/"},
		{"*.deep.example", "/"},
		{"*.deep.example", "/x"},
	}
	var all []*route
	for _, n := range names {
		all = append(all, &route{config: &Route{Host: n.host, Path: n.path, Name: n.host + n.path}})
	}
	table := newRouteTable(all)
	for _, tt := range []struct{ host, path, want string }{
		{"", "/", "/"},
		{"c.test", "/api", "/api"},
		{"c.test", "/api/", "/api"},
		{"c.test", "/api/v1", "/api"},
		{"c.test", "/apix", "/"},
		{"c.test", "/api/v2/x", "/api/v2"},
		{"c.test", "/api/v2x", "/api"},
		{"c.test", "/static", "/"},
		{"c.test", "/static/", "/static/"},
		{"c.test", "/static/x", "/static/"},
		{"a.example", "/", "a.example/"},
		{"a.example", "/api/v2/x", "a.example/api"},
		{"b.example", "/only/x", "b.example/only"},
		{"b.example", "/other", "*.example/"},
		{"x.example", "/", "*.example/"},
		{"example", "/", "/"},
		{"y.x.example", "/", "*.example/"},
		{"a.deep.example", "/x/y", "*.deep.example/x"},
		{"a.deep.example", "/y", "*.deep.example/"},
		{"deep.example", "/", "*.example/"},
		{"192.0.2.1", "/api", "/api"},
	} {
		got := ""
		if r := table.find(tt.host, tt.path); r != nil {
			got = r.config.Name
		}
		if got != tt.want {
			t.Errorf("%s%s goes to %q, want %q", tt.host, tt.path, got, tt.want)
		}
	}
}

func TestSendHostSetsUpstreamHost(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Routes[0].SendHost = "internal.example:8443"
	g := start(t, c)
	get(t, g, "/", "Host: shop.example")
	got := up.one(t)
	if got.host != "internal.example:8443" || got.header.Get("X-Forwarded-Host") != "shop.example" {
		t.Errorf("Host %q, X-Forwarded-Host %q", got.host, got.header.Get("X-Forwarded-Host"))
	}
}
