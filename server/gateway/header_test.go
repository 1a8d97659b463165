package gateway

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/http1"
)

func TestHopByHopHeadersAreRemovedBeforeLimiter(t *testing.T) {
	up := newRecorder(t)
	var limiterSaw http.Header
	c := before(up.URL)
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limiterSaw = r.Header.Clone()
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	a := exchangeRaw(t, g, lines("GET / HTTP/1.1", "Host: a.example", "Connection: X-Plan, keep-alive", "connection: x-other",
		"X-Plan: gold", "X-Other: 1", "X-Kept: 1", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eA==",
		"TE: deflate;q=0.5, trailers", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"))
	if a.status != 200 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	for who, h := range map[string]http.Header{"the limiter": limiterSaw, "the upstream": up.one(t).header} {
		for _, name := range []string{
			"Connection", "X-Plan", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Upgrade", "Http2-Settings",
		} {
			if got, ok := h[name]; ok {
				t.Errorf("%s saw %s: %q, want it removed", who, name, got)
			}
		}
		if h.Get("X-Kept") != "1" || strings.Join(h["Te"], "|") != "trailers" {
			t.Errorf("%s saw %v, want X-Kept and TE: trailers", who, h)
		}
	}
}

// A client must not make proxies remove the header that identifies it.
func TestForwardingHeaderInConnectionGets400(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = behindLoopback(t)
	g := start(t, c)
	for _, name := range []string{"X-Forwarded-For", "x-api-key", "X-User-ID", "authorization", "cookie", "host"} {
		a := exchangeRaw(t, g, lines("GET / HTTP/1.1", "Host: a.example", "Connection: close, "+name, "X-Forwarded-For: 203.0.113.9"))
		wantProblem(t, a, http.StatusBadRequest)
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v, want nothing", seen)
	}
}

func TestSpoofedForwardingHeadersAreReplaced(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	var limiterSaw http.Header
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limiterSaw = r.Header.Clone()
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	a := get(t, g, "/", "Host: a.example", "X-Forwarded-For: 127.0.0.1, 10.0.0.1", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https",
		"X-Forwarded-Port: 443", "X-Forwarded-Prefix: /x", "X-Forwarded-Server: evil", "Forwarded: for=127.0.0.1;proto=https",
		"X-Real-IP: 127.0.0.1", "X-Original-URL: /admin", "X-Rewrite-URL: /admin", "X-Request-ID: chosen", "X_Forwarded_For: 10.0.0.2",
		"X-Plain: 1")
	if a.status != 200 {
		t.Fatalf("status %d", a.status)
	}
	h := up.one(t).header
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "a.example", "X-Forwarded-Proto": "http", "X-Plain": "1",
	} {
		if got := strings.Join(h[name], "|"); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{
		"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "Forwarded", "X-Real-Ip", "X-Original-Url", "X-Rewrite-Url", "X_forwarded_for",
	} {
		if got, ok := h[name]; ok {
			t.Errorf("%s %q got through", name, got)
		}
	}
	for name, lines := range limiterSaw {
		if name != "X-Plain" && strings.HasPrefix(name, "X-") || name == "Forwarded" {
			t.Errorf("the limiter saw %s %q, which the upstream did not", name, lines)
		}
	}
	if got := h.Get("X-Request-ID"); got == "chosen" || got == "" {
		t.Errorf("X-Request-ID %q, want one of our own", got)
	}
}

func TestTrustedProxysForwardingHeadersAreContinued(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = behindLoopback(t)
	c.Via = "headgate"
	g := start(t, c)
	a := exchangeRaw(t, g, lines("GET / HTTP/1.1", "Host: a.example:8080", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.1",
		"X-Forwarded-Host: shop.example", "X-Forwarded-Proto: https", "X-Forwarded-Port: 443", `Forwarded: for=203.0.113.9;proto=https`,
		"Via: 1.1 edge", "X-Request-ID: edge-42", "X-Real-IP: 203.0.113.9"))
	if a.status != 200 {
		t.Fatalf("status %d", a.status)
	}
	h := up.one(t).header
	for name, want := range map[string]string{
		"X-Forwarded-For": "203.0.113.9, 198.51.100.1, 127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "https",
		"X-Forwarded-Port": "443", "Forwarded": `for=203.0.113.9;proto=https, for=127.0.0.1;host="a.example:8080";proto=http`,
		"Via": "1.1 edge, 1.1 headgate", "X-Request-Id": "edge-42", "X-Real-Ip": "203.0.113.9",
	} {
		if got := strings.Join(h[name], "|"); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	if got := a.header.Get("X-Request-ID"); got != "edge-42" {
		t.Errorf("X-Request-ID of the response %q, want that of the proxy", got)
	}
	if got := a.header.Get("Via"); got != "1.1 headgate" {
		t.Errorf("Via of the response %q", got)
	}
	// If a proxy sends no scheme or host, the gateway sets it; invalid ones are replaced.
	exchangeRaw(t, g, lines("GET / HTTP/1.1", "Host: a.example", "X-Forwarded-Proto: gopher", "X-Forwarded-Host: a", "X-Forwarded-Host: b"))
	h = up.one(t).header
	if got := h.Get("X-Forwarded-Proto") + " " + strings.Join(h["X-Forwarded-Host"], "|"); got != "http a.example" {
		t.Errorf("got %q, want what we know ourselves", got)
	}
}

func TestForwardedIsSentIfConfigured(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.SendForwarded = true
	g := start(t, c)
	get(t, g, "/", "Host: [2001:db8::1]:80", "Forwarded: for=1.2.3.4")
	if got := up.one(t).header.Get("Forwarded"); got != `for=127.0.0.1;host="[2001:db8::1]:80";proto=http` {
		t.Errorf("Forwarded %q", got)
	}
}

func TestForwardedElements(t *testing.T) {
	for _, tt := range []struct{ remote, host, scheme, peer, want string }{
		{"192.0.2.1:80", "a.example", "http", "192.0.2.1", "for=192.0.2.1;host=a.example;proto=http"},
		{"[2001:db8::1]:80", "a.example:1", "https", "2001:db8::1", `for="[2001:db8::1]";host="a.example:1";proto=https`},
		{"[::ffff:192.0.2.1]:80", "", "http", "192.0.2.1", "for=192.0.2.1;proto=http"},
		{"[fe80::1%eth0]:80", "a", "http", "fe80::1", `for="[fe80::1]";host=a;proto=http`},
		{"@", "a", "http", "", "for=unknown;host=a;proto=http"},
		{"", "a", "http", "", "for=unknown;host=a;proto=http"},
	} {
		peer := remoteAddress(tt.remote)
		if peer != tt.peer {
			t.Errorf("peerOf(%q) = %q, want %q", tt.remote, peer, tt.peer)
		}
		if got := http1.ForwardedElement(peer, tt.host, tt.scheme); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.remote, got, tt.want)
		}
	}
}

func TestHeadersWithUnderscoresPassIfConfigured(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.KeepUnderscores = true
	g := start(t, c)
	get(t, g, "/", "api_key: 1")
	if got := up.one(t).header.Get("api_key"); got != "1" {
		t.Errorf("api_key %q, want 1", got)
	}
}

func TestOnlyFromProxiesIsConfigurable(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.OnlyFromProxies = []string{"x-user-id", "True-Client-IP"}
	g := start(t, c)
	get(t, g, "/", "X-User-ID: admin", "True-Client-IP: 1.1.1.1", "X-Real-IP: 2.2.2.2", "X-Other: 1")
	h := up.one(t).header
	if h.Get("X-User-ID") != "" || h.Get("True-Client-IP") != "" || h.Get("X-Real-IP") != "2.2.2.2" || h.Get("X-Other") != "1" {
		t.Errorf("the upstream saw %v, want X-Real-IP and X-Other alone", h)
	}
}

func TestRequestIDs(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = behindLoopback(t)
	g := start(t, c)
	made := regexp.MustCompile(`^[0-9a-z]{24}$`)
	seen := make(map[string]bool)
	for _, tt := range []struct{ sent, want string }{
		{"", ""},
		{"abc-123_.:/+=@~", "abc-123_.:/+=@~"},
		{strings.Repeat("x", 128), strings.Repeat("x", 128)},
		{strings.Repeat("x", 129), ""},
		{"with space", ""},
		{`with"quote`, ""},
		{"ümlaut", ""},
	} {
		a := get(t, g, "/", "X-Request-ID: "+tt.sent)
		got := a.header.Get("X-Request-ID")
		if sent := up.one(t).header["X-Request-Id"]; len(sent) != 1 || sent[0] != got {
			t.Errorf("the upstream saw %q and the client %q, want the same", sent, got)
		}
		if tt.want != "" && got != tt.want || tt.want == "" && !made.MatchString(got) {
			t.Errorf("sent %q: got %q, want %q or one of our own", tt.sent, got, tt.want)
		}
		if seen[got] {
			t.Errorf("%q twice", got)
		}
		seen[got] = true
	}
	// Of a repeated header, none is used.
	a := get(t, g, "/", "X-Request-ID: a", "X-Request-ID: b")
	if got := a.header["X-Request-Id"]; len(got) != 1 || !made.MatchString(got[0]) {
		t.Errorf("repeated: got %q, want one of our own", got)
	}
}

// The client gets only one id.
func TestRequestIDOfTheUpstreamIsReplaced(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Request-ID", "upstream") })
	g := start(t, before(up.URL))
	if got := get(t, g, "/").header["X-Request-Id"]; len(got) != 1 || got[0] == "upstream" {
		t.Errorf("X-Request-ID %q, want ours alone", got)
	}
}

// With Hops every peer counts as a proxy, and the limiter sees the headers as they were received.
func TestLimiterSeesOriginalForwardingHeaders(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = identify(t, identity.Config{Hops: 1})
	var saw string
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var who identity.Attributes
			c.Identity.Read(r, &who)
			saw = who.Addr().String()
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	get(t, g, "/", "X-Forwarded-For: 198.51.100.7, 203.0.113.9")
	if saw != "203.0.113.9" {
		t.Errorf("the limiter saw %s, want 203.0.113.9", saw)
	}
	if got := up.one(t).header.Get("X-Forwarded-For"); got != "198.51.100.7, 203.0.113.9, 127.0.0.1" {
		t.Errorf("X-Forwarded-For %q", got)
	}
}
