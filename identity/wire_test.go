package identity

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// Requests as they come over the wire, read by net/http: those of real clients and proxies, and of others.
func TestRequestsFromTheWire(t *testing.T) {
	id := newID(t, Config{TrustedProxies: nets(t, "10.0.0.0/8"), Tokens: tokens, APIKeyQuery: "key", APIKeyHeader: "X-API-Key"})
	for _, tt := range []struct {
		name   string
		remote string
		text   string
		want   map[string]string
		bad    string
	}{
		{
			"curl", "192.0.2.1:1",
			"GET /search?q=a%20b HTTP/1.1\nHost: localhost:8080\nUser-Agent: curl/8.14.1\nAccept: */*\n\n",
			map[string]string{"ip": "192.0.2.1", "method": "GET", "host": "localhost", "path": "/search", "query.q": "a b", "user": "-", "api_key": "-", "bearer": "-", "header.user-agent": "curl/8.14.1"},
			"",
		},
		{
			"a browser behind Cloudflare and nginx", "10.0.0.1:1",
			"GET /a/b HTTP/1.1\nHost: Shop.Example.com\nX-Forwarded-For: 203.0.113.9, 10.2.0.1\nX-Forwarded-Proto: https\nCF-Connecting-IP: 203.0.113.9\nCF-Ray: 7\nConnection: close\nCookie: _ga=GA1.2.3; session=\"abc\"; theme=dark\n\n",
			map[string]string{"ip": "203.0.113.9", "host": "shop.example.com", "cookie.session": "abc", "segment.2": "b"},
			"",
		},
		{
			"a websocket", "192.0.2.1:1",
			"GET /ws HTTP/1.1\nHost: a.example\nConnection: keep-alive, Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: x\n\n",
			map[string]string{"path": "/ws", "header.upgrade": "websocket"},
			"",
		},
		{
			"absolute form", "192.0.2.1:1",
			"GET http://b.example/x HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"host": "b.example", "path": "/x"},
			"",
		},
		{
			"two slashes are no host", "192.0.2.1:1",
			"GET //b.example/x HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"host": "a.example", "path": "/b.example/x"},
			"",
		},
		{
			"a spoof of everything", "192.0.2.1:1",
			"GET / HTTP/1.1\nHost: a.example\nX-Forwarded-For: 127.0.0.1\nForwarded: for=127.0.0.1\nX-Real-IP: 127.0.0.1\nX-User-ID: admin\nX-Forwarded-Host: b.example\nX-Original-URL: /admin\n\n",
			map[string]string{"ip": "192.0.2.1", "user": "-", "host": "a.example", "path": "/"},
			"",
		},
		{
			"Connection: X-Forwarded-For", "10.0.0.1:1",
			"GET / HTTP/1.1\nHost: a.example\nConnection: X-Forwarded-For\nX-Forwarded-For: 203.0.113.9\n\n",
			map[string]string{"ip": "203.0.113.9", "header.x-forwarded-for": "-"},
			"header Connection",
		},
		{
			"two keys", "192.0.2.1:1",
			"GET /?key=a HTTP/1.1\nHost: a.example\nX-API-Key: b\n\n",
			map[string]string{"api_key": "-"},
			"API key",
		},
		{
			"a path that leads elsewhere", "192.0.2.1:1",
			"GET /public/%2e%2e/%61dmin HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"path": "/admin"},
			"",
		},
		{
			"a backslash", "192.0.2.1:1",
			"GET /public\\..\\admin HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"path": "-"},
			"path",
		},
		{
			"a host that is none", "192.0.2.1:1",
			"GET / HTTP/1.1\nHost: a.example:80,b.example\n\n",
			map[string]string{"host": "-"},
			"host",
		},
		{
			"HTTP/1.0 without a host", "192.0.2.1:1",
			"GET /x HTTP/1.0\n\n",
			map[string]string{"host": "-", "path": "/x"},
			"",
		},
		{
			"OPTIONS *", "192.0.2.1:1",
			"OPTIONS * HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"path": "*", "segment.1": "-", "method": "OPTIONS"},
			"",
		},
		{
			"CONNECT", "192.0.2.1:1",
			"CONNECT b.example:443 HTTP/1.1\nHost: b.example:443\n\n",
			map[string]string{"host": "b.example", "path": "/"},
			"",
		},
		{
			"huge cookies", "192.0.2.1:1",
			"GET / HTTP/1.1\nHost: a.example\nCookie: s=1; " + strings.Repeat("x=y; ", 10_000) + "\n\n",
			map[string]string{"cookie.s": "-", "ip": "192.0.2.1"},
			"header Cookie",
		},
		{
			"a huge query", "192.0.2.1:1",
			"GET /?key=k&x=" + strings.Repeat("x", 20_000) + " HTTP/1.1\nHost: a.example\n\n",
			map[string]string{"api_key": "-", "query.key": "-"},
			"query",
		},
		{
			"a header on two lines with the client's first", "10.0.0.1:1",
			"GET / HTTP/1.1\nHost: a.example\nX-Forwarded-For: 127.0.0.1\nx-forwarded-for: 203.0.113.9\n\n",
			map[string]string{"ip": "203.0.113.9"},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(tt.text, "\n", "\r\n"))))
			if err != nil {
				t.Fatal(err)
			}
			r.RemoteAddr = tt.remote
			for name, want := range tt.want {
				if got := get(t, id, r, name); got != want {
					t.Errorf("%s = %s, want %s", name, got, want)
				}
			}
			if got := part(t, id, r); got != tt.bad {
				t.Errorf("malformed %q, want %q", got, tt.bad)
			}
		})
	}
}
