package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// memListener accepts connections that never leave this process.
type memListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *memListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// Any bytes of a client lead only to requests at the upstream that the gateway has seen: with the path that the limiter
// saw, without hop-by-hop headers, and with the headers that identify the client.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		lines("GET / HTTP/1.1", "Host: a.example"),
		lines("GET /a/../b?c HTTP/1.1", "Host: a.example", "Connection: X-A", "X-A: 1"),
		lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 5") + "hello" + lines("GET /2 HTTP/1.1", "Host: b"),
		lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked", "Trailer: X-Forwarded-For") + "5\r\nhello\r\n0\r\nX-Forwarded-For: 1\r\n\r\n",
		lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n",
		lines("GET http://b.example/x HTTP/1.1", "Host: a.example", "X-Forwarded-For: 10.0.0.1", "Forwarded: for=x", "X_Forwarded_For: y"),
		lines("GET /ws HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: websocket"),
		lines("OPTIONS * HTTP/1.1", "Host: a.example"),
		lines("GET /admin;a=b/x HTTP/1.1", "Host: a.example"),
		lines("GET /a?token=1&token=2;3 HTTP/1.1", "Host: a.example", "Cookie: s=1; s=2", "Cookie: s=3"),
		"GET / HTTP/1.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n\r\nGET /%2e%2e/%61 HTTP/1.1\nHost: a\n\n", "GET /a#b?c#d HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTE: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
	} {
		f.Add([]byte(seed))
	}
	var limiter recent // what the limiter saw
	var problems sync.Map
	up := httpUpstream(f, func(r *http.Request) {
		got := r.URL.EscapedPath()
		if path := limiter.path(r.Header.Get("X-Request-Id")); path == "" {
			problems.Store("the upstream saw a request that the limiter did not: "+r.RequestURI, true)
		} else if canonical, err := identity.CanonicalPath(got, identity.PathRules{}); err != nil || canonical != got || got != path {
			problems.Store("the limiter saw "+path+" and the upstream "+got, true)
		}
		for _, name := range []string{"Connection", "Upgrade", "Proxy-Connection", "Keep-Alive", "Forwarded", "X_forwarded_for", "Proxy-Authorization"} {
			if v, ok := r.Header[name]; ok {
				problems.Store("the upstream saw "+name+": "+strings.Join(v, "|"), true)
			}
		}
		if v := r.Header["X-Forwarded-For"]; len(v) != 1 || v[0] != "192.0.2.1" {
			problems.Store("the upstream saw X-Forwarded-For: "+strings.Join(v, "|"), true)
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil && len(r.Trailer["X-Forwarded-For"]) > 0 {
			problems.Store("the upstream saw a trailer X-Forwarded-For", true)
		}
	})
	c := before(up)
	c.Upgrades = []string{} // so that nothing is hijacked
	c.HeaderTimeout, c.BodyTimeout = 100*time.Millisecond, 100*time.Millisecond
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limiter.add(exchangeOf(w).request.id[0], r.URL.EscapedPath())
			next.ServeHTTP(w, r)
		})
	}
	g := create(f, c)
	l := newMemListener()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = "192.0.2.1:1"
		g.ServeHTTP(w, r)
	}), ReadHeaderTimeout: 100 * time.Millisecond, ErrorLog: g.listeners[0].server.ErrorLog}
	go func() { _ = server.Serve(l) }()
	f.Cleanup(func() { _ = server.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := l.dial()
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		go func() {
			_, _ = conn.Write(data)
			_, _ = io.WriteString(conn, "\r\n\r\nGET / HTTP/1.1\r\nHost: end\r\nConnection: close\r\n\r\n")
		}()
		responses, _ := io.ReadAll(conn)
		if bytes.Contains(responses, []byte("panic")) {
			t.Fatalf("%q", responses)
		}
		problems.Range(func(problem, _ any) bool { t.Error(problem); return true })
		problems.Clear()
	})
}

// recent has the paths of some requests by their ids.
type recent struct {
	mu    sync.Mutex
	order [1024]string
	next  int
	paths map[string]string
}

func (r *recent) add(id, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paths == nil {
		r.paths = make(map[string]string)
	}
	delete(r.paths, r.order[r.next])
	r.order[r.next] = id
	r.next = (r.next + 1) % len(r.order)
	r.paths[id] = path
}

func (r *recent) path(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths[id]
}

// httpUpstream runs an upstream with a constant response.
func httpUpstream(f *testing.F, do func(r *http.Request)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { do(r) })}
	go func() { _ = server.Serve(l) }()
	f.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

// Headers that Connection names are removed, with any other headers beside them.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{"", "close", "X-A", "x-a, close", ",,X-A,,", " \tx-A\t ,upgrade", "X-A;q=1", "keep-alive, X-B", "ｘ-a", strings.Repeat("a,", 100)} {
		f.Add(seed, "")
		f.Add("keep-alive", seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		h := http.Header{"Connection": {first, second}, "X-A": {"1"}, "X-B": {"1"}}
		upgrade := http1.RemoveNominated(h)
		for _, name := range []string{"X-A", "X-B", "Upgrade"} {
			named := false
			for option := range strings.SplitSeq(first+","+second, ",") {
				named = named || strings.EqualFold(strings.Trim(option, " \t"), name)
			}
			if name == "Upgrade" {
				if upgrade != named {
					t.Fatalf("%q, %q: upgrade %v, want %v", first, second, upgrade, named)
				}
			} else if _, there := h[name]; there == named {
				t.Fatalf("%q, %q: %s is there %v, named %v", first, second, name, there, named)
			}
		}
	})
}

// The forwarded target has only one meaning.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/", "/a?b", "/a/../b?c#d", "//x", "/%61%2f?%", "http://h/x?y", "/a?", "/é?é", "/a?b?c", "/%zz", "*", "/a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + sent + " HTTP/1.1\r\nHost: a.example\r\n\r\n")))
		if err != nil || r.URL.Path == "*" || checkTarget(r) != nil {
			return
		}
		path, err := identity.CanonicalPath(r.URL.EscapedPath(), identity.PathRules{})
		if err != nil {
			return
		}
		target, err := setPath(r, path)
		if err != nil {
			t.Fatalf("%q: canonical path %q: %v", sent, path, err)
		}
		for i := range len(target) {
			if c := target[i]; c <= ' ' || c >= 0x7f || c == '#' {
				t.Fatalf("%q: target %q has %q", sent, target, c)
			}
		}
		again, err := url.ParseRequestURI(target)
		if err != nil || again.EscapedPath() != path || again.RawQuery != r.URL.RawQuery || r.URL.EscapedPath() != path {
			t.Fatalf("%q: target %q is read as %q?%q, %v, want %q?%q", sent, target, again.EscapedPath(), again.RawQuery, err, path, r.URL.RawQuery)
		}
		if got := (&url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}).RequestURI(); got != target {
			t.Fatalf("%q: by net/http it is sent as %q, want %q", sent, got, target)
		}
	})
}

// The element that is added to Forwarded is valid, and is exactly one.
func FuzzForwarded(f *testing.F) {
	f.Add("192.0.2.1:80", "a.example:80", "for=1.2.3.4")
	f.Add("[2001:db8::1]:80", "[::1]", `for="[::1]", for="x`)
	f.Add("@", "", "")
	trusting, err := identity.New(identity.Config{ForwardingHeader: "Forwarded", TrustedProxies: mustNets("10.0.0.0/8")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, remote, host, earlier string) {
		if _, err := identity.CanonicalHost(host); err != nil && host != "" {
			return
		}
		peer := remoteAddress(remote)
		element := http1.ForwardedElement(peer, host, "http")
		r := &http.Request{Method: "GET", RemoteAddr: "10.0.0.1:1", Header: http.Header{"Forwarded": {http1.AppendElement([]string{earlier}, element)}}, URL: &url.URL{Path: "/"}}
		var known, who identity.Attributes
		trusting.Read(&http.Request{Method: "GET", RemoteAddr: remote, Header: http.Header{}, URL: &url.URL{Path: "/"}}, &known)
		trusting.Read(r, &who)
		want := known.Addr()
		if want.IsValid() && peer != "" && trusting.Trusts(want) {
			return // then it depends on what was there before
		}
		if peer == "" {
			want = who.Peer() // the client of the proxy is unknown
		}
		if who.Addr() != want {
			t.Fatalf("%q is read as %v, want %v", r.Header["Forwarded"], who.Addr(), want)
		}
	})
}
