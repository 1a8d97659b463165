package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	s, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// limitIn returns the limiter itself, by rules in YAML.
func limitIn(t testing.TB, store *memstore.Store, id *identity.Identifier, rules string) func(http.Handler) http.Handler {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := httplimit.New(httplimit.Config{Engine: e, Identifier: id})
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// If no upstream has received a request, the estimate of its cost is refunded. A cost that is known before stays, so
// that limits hold while an upstream is down.
func TestEstimateIsRefundedIfNoUpstreamWasReached(t *testing.T) {
	const rules = `
rules:
  - { id: tokens, when: { path: /chat }, key: ip, limits: 100/h, cost: { response_header: X-Tokens-Used, estimate: 60 } }
  - { id: fixed, when: { path: /fixed }, key: ip, limits: 100/h, cost: 60 }
`
	up := newRecorder(t)
	for _, tt := range []struct {
		name, upstream, path string
		want                 []int
	}{
		{"an upstream that is not there", refusing(t), "/chat", []int{502, 502, 502}},
		{"a cost that is known", refusing(t), "/fixed", []int{502, 429}},
		{"an upstream that responds", up.URL, "/chat", []int{200, 429}},
		{"an upstream that closes the connection", fake(t, says("")), "/chat", []int{502, 429}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := before(tt.upstream)
			c.Identity = identify(t, identity.Config{})
			c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
			g := start(t, c)
			for i, want := range tt.want {
				if a := get(t, g, tt.path); a.status != want {
					t.Errorf("request %d: %d, want %d", i, a.status, want)
				}
			}
		})
	}
}

// A cost in a trailer is known at the end of the response. A client that disconnects before pays the maximum, the
// smallest capacity of the limits.
func TestDisconnectBeforeTrailerChargesMaximum(t *testing.T) {
	const rules = `
rules:
  - { id: tokens, key: api_key, limits: 100/h, cost: { response_header: X-Tokens-Used, estimate: 1 } }
`
	const words = "all that the client wants"
	for name, protocol := range map[string]string{"HTTP/1.1": "", "HTTP/2": "h2c"} {
		t.Run(name, func(t *testing.T) {
			up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-Tokens-Used")
				_, _ = io.WriteString(w, words)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // the client is gone, and with it the gateway
				w.Header().Set("X-Tokens-Used", "50")
			}))
			up.Config.Protocols = new(http.Protocols)
			up.Config.Protocols.SetHTTP1(true)
			up.Config.Protocols.SetUnencryptedHTTP2(true)
			up.Start()
			t.Cleanup(up.Close)
			url := up.URL
			if protocol != "" {
				url = strings.Replace(url, "http", protocol, 1)
			}
			c := before(url)
			c.Identity = identify(t, identity.Config{})
			c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
			g := start(t, c)
			served := 0
			for range 5 {
				conn, r := dial(t, g)
				send(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nX-API-Key: a\r\n\r\n")
				status, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(status, "429") {
					_ = conn.Close()
					continue
				}
				for line := ""; !strings.Contains(line, words); {
					if line, err = r.ReadString('s'); err != nil {
						t.Fatal(err)
					}
				}
				served++
				_ = conn.Close()
				await.Equal(t, "requests under way", func() int64 { return g.Stats().InFlight }, 0)
			}
			if served != 1 {
				t.Errorf("%d of 5 were served, want 1, which costs all of 100", served)
			}
		})
	}
}

// For a servlet container a path with parameters is /admin/x: only with keep, for other services, does it bypass a rule
// for /admin/**.
func TestPathParametersDoNotBypassRules(t *testing.T) {
	up := newRecorder(t)
	for _, tt := range []struct {
		parameters identity.Parameters
		status     int
	}{
		{identity.RefuseParameters, http.StatusBadRequest},
		{identity.CutParameters, http.StatusForbidden},
		{identity.KeepParameters, http.StatusOK},
	} {
		c := before(up.URL)
		c.Identity = identify(t, identity.Config{Paths: identity.PathRules{Parameters: tt.parameters}})
		c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, "rules: [{ id: a, when: { path: /admin/** }, block: true }]")
		g := start(t, c)
		for _, path := range []string{"/admin;a=b/x", "/;a/admin/x", "/admin;", "//;/admin"} {
			if a := get(t, g, path); a.status != tt.status {
				t.Errorf("%d: %s: %d, want %d", tt.parameters, path, a.status, tt.status)
			}
			if seen := up.taken(); len(seen) > 0 && tt.status != http.StatusOK {
				t.Errorf("%d: %s: the upstream saw %+v", tt.parameters, path, seen)
			}
		}
		if a := get(t, g, "/admin/x"); a.status != http.StatusForbidden {
			t.Errorf("%d: /admin/x: %d, want 403", tt.parameters, a.status)
		}
	}
}

// Requests with two values of a key attribute get a 400, and reach no upstream.
func TestDuplicateKeysDoNotBypassRules(t *testing.T) {
	const rules = `
rules:
  - { id: tokens, when: { path: /token }, key: query.token, limits: 1/h, fallback: skip }
  - { id: sessions, when: { path: /session }, key: cookie.session, limits: 1/h, fallback: skip }
  - { id: tenants, when: { path: /tenant }, key: header.x-tenant, limits: 1/h, fallback: skip }
`
	up := newRecorder(t)
	for _, tt := range []struct {
		repeated identity.Repeated
		statuses [3]int // of a request that names itself twice, of the one that it claims to be first, and last
	}{
		{identity.RefuseRepeated, [3]int{400, 200, 200}},
		{identity.FirstRepeated, [3]int{200, 429, 200}},
		{identity.LastRepeated, [3]int{200, 200, 429}},
	} {
		for name, requests := range map[string][3][]string{
			"a parameter": {{"/token?token=a&token=b"}, {"/token?token=a"}, {"/token?token=b"}},
			"a cookie":    {{"/session", "Cookie: session=a; session=b"}, {"/session", "Cookie: session=a"}, {"/session", "Cookie: session=b"}},
		} {
			c := before(up.URL)
			c.Identity = identify(t, identity.Config{Repeated: tt.repeated})
			c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
			g := start(t, c)
			for i, r := range requests {
				if a := get(t, g, r[0], r[1:]...); a.status != tt.statuses[i] {
					t.Errorf("%d, %s, request %d: %d, want %d: %s", tt.repeated, name, i, a.status, tt.statuses[i], a.body)
				}
			}
		}
	}
	c := before(up.URL)
	c.Identity = identify(t, identity.Config{})
	c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
	if a := exchangeRaw(t, start(t, c), lines("GET /tenant HTTP/1.1", "Host: a.example", "X-Tenant: a", "X-Tenant: b")); a.status != 400 || !strings.Contains(a.body, "ambiguous") {
		t.Errorf("a header on two lines: %d %s, want 400, and why", a.status, a.body)
	}
}

// A client that writes a key attribute in another way, which some services read as the same, is the same client or gets
// a 400.
func TestOtherSpellingsOfKeysDoNotBypassRules(t *testing.T) {
	const rules = `
rules:
  - { id: tokens, when: { path: /token }, key: query.token, limits: 1/h, fallback: skip }
  - { id: sessions, when: { path: /session }, key: cookie.session, limits: 1/h, fallback: skip }
`
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = identify(t, identity.Config{})
	c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
	g := start(t, c)
	for _, first := range []string{"GET /token?token=a1", "GET /session"} {
		if a := exchangeRaw(t, g, lines(first+" HTTP/1.1", "Host: a.example", "Cookie: session=a1")); a.status != 200 {
			t.Fatalf("%s: %d, want 200", first, a.status)
		}
	}
	up.taken()
	for _, tt := range []struct {
		target, cookie string
		status         int
	}{
		{"/token?token=%61%31", "", 429},
		{"/token?%74oken=a1", "", 429},
		{"/token?token=a1;x", "", 400},
		{"/token?x;token=a1", "", 400},
		{"/token?token=a1%", "", 400},
		{"/session", "session=%61%31", 429},
		{"/session", "session= a1", 429},
		{"/session", `session="a1"`, 429},
		{"/session", "x=y; session = a1 ", 429},
	} {
		if a := exchangeRaw(t, g, lines("GET "+tt.target+" HTTP/1.1", "Host: a.example", "Cookie: "+tt.cookie)); a.status != tt.status {
			t.Errorf("%s, Cookie %q: %d, want %d", tt.target, tt.cookie, a.status, tt.status)
		}
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v", seen)
	}
}
