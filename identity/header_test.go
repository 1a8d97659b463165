package identity

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate"
)

func TestHeaders(t *testing.T) {
	id := newID(t, Config{})
	long := strings.Repeat("x", DefaultMaxValue)
	for _, tt := range []struct {
		name    string
		headers []string
		want    string // "#" is a hash
	}{
		{"header.x-plan", nil, "-"},
		{"header.x-plan", []string{"X-Plan: gold"}, "gold"},
		{"header.X-PLAN", []string{"x-plan: gold"}, "gold"},
		{"header.x-plan", []string{"X-Plan: "}, "-"},
		{"header.x-plan", []string{"X-Plan: gold", "X-Plan: free"}, "gold, free"},
		{"header.x-plan", []string{"X-Plan: ", "X-Plan: free", "X-Plan: "}, "free"},
		{"header.x-plan", []string{"X_Plan: gold", "X-Plan2: gold"}, "-"},
		{"header.x-plan", []string{"X-Plan: " + long}, long},
		{"header.x-plan", []string{"X-Plan: " + long + "x"}, "#"},
		{"header.x-plan", []string{"X-Plan: " + strings.Repeat(long, 65)}, "-"},
		{"header.x-plan", []string{"X-Plan: " + strings.Repeat(long, 63), "X-Plan: " + strings.Repeat(long, 63)}, "-"},
		{"header.authorization", []string{"Authorization: Bearer secret"}, "#"},
		{"header.proxy-authorization", []string{"Proxy-Authorization: Basic c2VjcmV0"}, "#"},
		{"header.cookie", []string{"Cookie: session=secret"}, "#"},
		{"header.user-agent", []string{"User-Agent: curl/8"}, "curl/8"},
		// Connection.
		{"header.x-plan", []string{"Connection: keep-alive, Upgrade", "X-Plan: gold"}, "gold"},
		{"header.x-plan", []string{"Connection: x-PLAN", "X-Plan: gold"}, "-"},
		{"header.x-plan", []string{"Connection: close,, \tX-Plan ,", "X-Plan: gold"}, "-"},
		{"header.x-plan", []string{"Connection: close", "Connection: X-Plan", "X-Plan: gold"}, "-"},
		{"header.x-plan", []string{"Connection: X-Plans, X-Pla", "X-Plan: gold"}, "gold"},
		{"header.x-plan", []string{"Connection: " + strings.Repeat("x, ", 500), "X-Plan: gold"}, "-"},
		{"header.upgrade", []string{"Connection: Upgrade", "Upgrade: websocket"}, "websocket"},
		{"header.upgrade", []string{"Connection: Upgrade, X-Other", "Upgrade: websocket"}, "websocket"},
		{"header.te", []string{"Connection: X-Other, TE", "TE: trailers"}, "trailers"},
		{"header.connection", []string{"Connection: Upgrade"}, "Upgrade"},
		{"header.connection", []string{"Connection: " + strings.Repeat("x,", 600)}, "#"},
	} {
		got := get(t, id, request("192.0.2.1:1", "/", tt.headers...), tt.name)
		if tt.want == "#" {
			if len(got) != 24 || strings.Contains(got, "secret") {
				t.Errorf("%s of %.80q = %q, want a hash", tt.name, tt.headers, got)
			}
		} else if got != tt.want {
			t.Errorf("%s of %.80q = %.80q, want %.80q", tt.name, tt.headers, got, tt.want)
		}
	}
}

func TestConnectionMayNotNameWhatTellsWhoIsAsking(t *testing.T) {
	id := newID(t, by("X-Forwarded-For"))
	for header, want := range map[string]string{
		"close": "", "keep-alive, Upgrade": "", "Upgrade, HTTP2-Settings": "", "TE": "", "X-Other": "", "Forwarded": "",
		"X-Forwarded-For": "header Connection", "close, x-forwarded-for": "header Connection", "X-API-Key": "header Connection",
		"Authorization": "header Connection", "cookie": "header Connection", "Host": "header Connection", "X-User-ID": "header Connection",
		strings.Repeat("x,", 600): "header Connection",
	} {
		for _, remote := range []string{"10.0.0.1:1", "192.0.2.1:1"} {
			if got := part(t, id, request(remote, "/", "Connection: "+header)); got != want {
				t.Errorf("Connection: %.60s from %s: malformed %q, want %q", header, remote, got, want)
			}
		}
	}
	if got := part(t, newID(t, Config{}), request("192.0.2.1:1", "/", "Connection: X-Forwarded-For")); got != "" {
		t.Errorf("nobody is trusted with it, and yet malformed %q", got)
	}
}

// A key that the service will not see is not one by which to get a limit of one's own.
func TestCredentialsThatConnectionNamesDoNotCount(t *testing.T) {
	id := newID(t, by("X-Forwarded-For"))
	for name, header := range map[string]string{
		"api_key": "X-API-Key: k1", "user": "X-User-ID: alice", "bearer": "Authorization: Bearer t", "cookie.s": "Cookie: s=1",
	} {
		field, _, _ := strings.Cut(header, ":")
		if got := get(t, id, request("10.0.0.1:1", "/", header), name); got == "-" {
			t.Errorf("%s is missing without Connection", name)
		}
		if got := get(t, id, request("10.0.0.1:1", "/", header, "Connection: "+field), name); got != "-" {
			t.Errorf("%s = %s, want none: Connection names %s", name, got, field)
		}
	}
}

func TestNamesOfHeadersAreRememberedWithinBounds(t *testing.T) {
	id := newID(t, Config{})
	r := request("192.0.2.1:1", "/", "X-Last: yes")
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			var a Attributes
			id.Read(r, &a)
			for i := range 50 {
				a.Get(headgate.Attribute{Kind: headgate.AttrHeader, Name: fmt.Sprintf("x-%d-%d", g, i)})
			}
			if v, _ := a.Get(headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-last"}); v != "yes" {
				t.Errorf("x-last = %q, want yes", v)
			}
		})
	}
	wait.Wait()
	if got := len(*id.names.known.Load()); got != 201 {
		t.Errorf("%d names are remembered, want 201", got)
	}
	full := map[string]*headerName{}
	for i := range maxNames {
		full[fmt.Sprint(i)] = &headerName{}
	}
	id.names.known.Store(&full)
	if got := get(t, id, r, "header.x-last"); got != "yes" || len(*id.names.known.Load()) != maxNames {
		t.Errorf("x-last = %q with %d names, want yes and %d", got, len(*id.names.known.Load()), maxNames)
	}
}

func TestCookies(t *testing.T) {
	id := newID(t, Config{MaxCookies: 4096})
	for _, tt := range []struct {
		headers []string
		want    string
	}{
		{nil, "-"},
		{[]string{"Cookie: s=1"}, "1"},
		{[]string{"Cookie: a=b; s=1; c=d"}, "1"},
		{[]string{"Cookie: a=b;s=1;c=d"}, "1"},
		{[]string{`Cookie: s="1 2"`}, "1 2"},
		{[]string{`Cookie: s="`}, `"`},
		{[]string{"Cookie: s=1; s=2"}, "1"},
		{[]string{"Cookie: s=1", "Cookie: s=2"}, "1"},
		{[]string{"Cookie: a=1", "Cookie: s=2"}, "2"},
		{[]string{"Cookie: s=; s=2"}, "-"},
		{[]string{"Cookie: S=1"}, "-"},
		{[]string{"Cookie: ss=1; s"}, "-"},
		{[]string{"Cookie: s=a=b"}, "a=b"},
		// One client, whatever a service reads into the value.
		{[]string{"Cookie: s = 1 "}, "1"},
		{[]string{"Cookie: s=\t1"}, "1"},
		{[]string{`Cookie: s= "1"`}, "1"},
		{[]string{"Cookie: s=%31"}, "1"},
		{[]string{`Cookie: s="%31"`}, "1"},
		{[]string{"Cookie: s=1%2B+"}, "1++"},
		{[]string{"Cookie: s=%31%"}, "%31%"}, // which nobody can read
		{[]string{"Cookie: ;;; ; =; s=1"}, "1"},
		{[]string{"Cookie: x=" + strings.Repeat("x", 4000) + "; s=1"}, "1"},
		{[]string{"Cookie: s=1; x=" + strings.Repeat("x", 4096)}, "-"},
		{[]string{"Cookie: s=1", "Cookie: x=" + strings.Repeat("x", 4092)}, "-"},
	} {
		if got := get(t, id, request("192.0.2.1:1", "/", tt.headers...), "cookie.s"); got != tt.want {
			t.Errorf("%.80q: cookie.s = %q, want %q", tt.headers, got, tt.want)
		}
	}
	if got := get(t, id, request("192.0.2.1:1", "/", "Cookie: s="+strings.Repeat("x", 1025)), "cookie.s"); len(got) != 24 {
		t.Errorf("a long cookie is %q, want its hash", got)
	}
}

func TestQueries(t *testing.T) {
	id := newID(t, Config{MaxQuery: 4096})
	for _, tt := range []struct{ query, want string }{
		{"", "-"},
		{"q=1", "1"},
		{"a=b&q=1&c=d", "1"},
		{"q=1&q=2", "1"},
		{"q=&q=2", "-"},
		{"q", "-"},
		{"Q=1", "-"},
		{"%71=1", "1"},
		{"%7=1", "-"},
		{"q%=1", "-"},
		{"qq=1", "-"},
		{"q=a+b%2Fc", "a b/c"},
		{"q=%zz&q=2", "2"},
		{"q=1;r=2&q=3", "3"},
		{"q=a=b", "a=b"},
		{"&&&q=1", "1"},
		{"x=" + strings.Repeat("x", 4000) + "&q=1", "1"},
		{"q=1&x=" + strings.Repeat("x", 4096), "-"},
	} {
		if got := get(t, id, request("192.0.2.1:1", "/?"+tt.query), "query.q"); got != tt.want {
			t.Errorf("%.80q: query.q = %q, want %q", tt.query, got, tt.want)
		}
	}
}
