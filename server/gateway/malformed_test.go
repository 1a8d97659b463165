package gateway

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Ambiguous and invalid requests never reach the upstream, or only in the form that the gateway has read. Those that
// net/http refuses itself get its plain-text response.
func TestMalformedRequestsNeverReachTheUpstream(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"no host":                                {"GET / HTTP/1.1\r\n\r\n", 400},
		"two hosts":                              {"GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n", 400},
		"a host with a path":                     {"GET / HTTP/1.1\r\nHost: a.example/x\r\n\r\n", 400},
		"a host with a comma":                    {"GET / HTTP/1.1\r\nHost: a.example,b.example\r\n\r\n", 400},
		"a host with a user":                     {"GET / HTTP/1.1\r\nHost: user@a.example\r\n\r\n", 400},
		"a host with a bad port":                 {"GET / HTTP/1.1\r\nHost: a.example:99999\r\n\r\n", 400},
		"a host that is not closed":              {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
		"a host with a space":                    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		"a space before the colon":               {"GET / HTTP/1.1\r\nHost: a.example\r\nX-Y : 1\r\n\r\n", 400},
		"a folded header":                        {"GET / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 0},
		"a line break in a header":               {"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\rb\r\n\r\n", 400},
		"NUL in a header":                        {"GET / HTTP/1.1\r\nHost: a.example\r\nX: a\x00b\r\n\r\n", 400},
		"an unknown version":                     {"GET / HTTP/3.0\r\nHost: a.example\r\n\r\n", 505},
		"no version":                             {"GET /\r\n\r\n", 400},
		"HTTP/2 without its preface":             {"PRI * HTTP/2.0\r\nHost: a.example\r\n\r\n", 405},
		"two lengths":                            {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"a length that is none":                  {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: +1\r\n\r\na", 400},
		"a negative length":                      {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: -1\r\n\r\na", 400},
		"lengths in a list":                      {"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1, 1\r\n\r\na", 400},
		"an encoding twice":                      {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501},
		"an encoding that is unknown":            {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
		"an encoding in disguise":                {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400},
		"identity":                               {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: identity\r\n\r\n", 501},
		"a bad chunk":                            {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
		"a chunk that overflows":                 {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
		"a chunk size with a bare newline":       {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400},
		"a chunk that goes on":                   {"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400},
		"another expectation":                    {"POST / HTTP/1.1\r\nHost: a.example\r\nExpect: miracles\r\nContent-Length: 1\r\n\r\na", 417},
		"a user in the target":                   {"GET http://user@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"another scheme":                         {"GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"an opaque target":                       {"GET http:foo HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"a target without a slash":               {"GET foo HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"CONNECT":                                {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 405},
		"TRACE":                                  {"TRACE / HTTP/1.1\r\nHost: a.example\r\nCookie: secret\r\n\r\n", 405},
		"Connection names an identifying header": {"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close, Cookie\r\nCookie: a=b\r\n\r\n", 400},
		"Connection is endless":                  {"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: " + strings.Repeat("x, ", 1000) + "\r\n\r\n", 400},
		"an encoded slash":                       {"GET /a%2Fb HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"a backslash":                            {"GET /a\\..\\b HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"dots with a parameter":                  {"GET /a/..;/b HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"a parameter":                            {"GET /admin;a=b/x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"a parameter of nothing":                 {"GET /;a/admin/x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"NUL in the path":                        {"GET /%00 HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
		"half an escape":                         {"GET /%2 HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := dial(t, g)
			send(t, conn, tt.text)
			method, _, _ := strings.Cut(tt.text, " ")
			a, err := tryReceive(r, method)
			if tt.status == 0 {
				// The gateway may read it, if the upstream then sees the same.
				if a.status != 200 && a.status != 400 {
					t.Fatalf("status %d, %v, want 200 or 400", a.status, err)
				}
				for _, one := range up.taken() {
					if one.body != "" || len(one.header["Transfer-Encoding"]) > 0 {
						t.Errorf("the upstream saw %+v, want no body", one)
					}
				}
				return
			}
			if err != nil || a.status != tt.status {
				t.Fatalf("status %d, %v, want %d", a.status, err, tt.status)
			}
			if strings.Contains(a.body, "secret") {
				t.Errorf("the response contains what was sent: %q", a.body)
			}
			if seen := up.taken(); len(seen) > 0 {
				t.Errorf("the upstream saw %+v, want nothing", seen)
			}
		})
	}
}

// A request with two lengths: no request is read after it, because for another server the next bytes could be part of
// its body.
func TestSmugglingByTwoLengthsEndsTheConnection(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	for name, text := range map[string]string{
		"length, then chunks": "POST /first HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"1e\r\nGET /smuggled HTTP/1.1\r\nX: a\r\n\r\n0\r\n\r\n",
		"chunks, then length": "POST /first HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 100\r\n\r\n" +
			"3\r\nabc\r\n0\r\n\r\n",
		"chunks of HTTP/1.0": "POST /first HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := dial(t, g)
			send(t, conn, text+"GET /second HTTP/1.1\r\nHost: a.example\r\n\r\n")
			if a := receive(t, r, "POST"); a.body != "served /first" || !a.close {
				t.Errorf("response %q, the last %t; want that to /first alone", a.body, a.close)
			}
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("then %q, %v, want the end", rest, err)
			}
			seen := up.one(t)
			if coded := seen.length == -1; seen.target != "/first" || coded && seen.header.Get("Content-Length") != "" {
				t.Errorf("the upstream saw %+v, want /first with one length", seen)
			}
		})
	}
}

// If an upstream responds before it has read the body, the rest of the body is never taken for a request, with any
// protocol and framing.
func TestUnreadBodiesAreNotParsedAsRequests(t *testing.T) {
	hasty := func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "smuggled") {
			t.Errorf("the upstream saw %s", r.RequestURI)
		}
		w.WriteHeader(http.StatusForbidden)
	}
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
	filled := func(n int) string { return strings.Repeat(smuggled, n/len(smuggled)) }
	for leg, url := range map[string]string{"HTTP/1.1": serve(t, hasty).URL, "HTTP/2": serveH2C(t, hasty)} {
		c := before(url)
		c.MaxBody = 1 << 20
		c.BodyTimeout = 300 * time.Millisecond
		g := start(t, c)
		for name, text := range map[string]string{
			"all at once":         lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: "+itoa(len(filled(1000)))) + filled(1000),
			"a large one":         lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: "+itoa(len(filled(900_000)))) + filled(900_000),
			"half of it":          lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 1000000") + filled(100_000),
			"in chunks":           lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + itoa16(len(filled(1000))) + "\r\n" + filled(1000) + "\r\n0\r\n\r\n",
			"in many chunks":      lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + strings.Repeat(itoa16(len(filled(1000)))+"\r\n"+filled(1000)+"\r\n", 500) + "0\r\n\r\n",
			"in bad chunks":       lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "5\r\nhello\r\nzz\r\n" + filled(1000),
			"half a chunk":        lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + "ffff\r\n" + filled(1000),
			"unasked":             lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 100000", "Expect: 100-continue") + filled(1000),
			"too large":           lines("POST / HTTP/1.1", "Host: a.example", "Content-Length: 100000000") + filled(100_000),
			"too large in chunks": lines("POST / HTTP/1.1", "Host: a.example", "Transfer-Encoding: chunked") + strings.Repeat(itoa16(len(filled(100_000)))+"\r\n"+filled(100_000)+"\r\n", 20) + "0\r\n\r\n",
		} {
			t.Run(leg+" "+name, func(t *testing.T) {
				t.Parallel()
				conn, r := dial(t, g)
				go func() {
					_, _ = io.WriteString(conn, text)
					_ = conn.(*net.TCPConn).CloseWrite()
				}()
				n := 0
				for {
					a, err := tryReceive(r, "POST")
					if err != nil {
						break
					}
					if a.status != http.StatusContinue {
						n++
					}
				}
				if n > 1 {
					t.Errorf("%d responses, want one", n)
				}
			})
		}
	}
}

// Bytes after a request in the same packet are the next request, and never part of the previous one.
func TestPipelinedRequestsAreServedInOrder(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	conn, r := dial(t, g)
	var text strings.Builder
	for _, path := range []string{"/1", "/2", "/3"} {
		text.WriteString("POST " + path + " HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\n" + path)
	}
	send(t, conn, text.String())
	for _, path := range []string{"/1", "/2", "/3"} {
		if a := receive(t, r, "POST"); a.body != "served "+path {
			t.Errorf("response %q, want that to %s", a.body, path)
		}
	}
	for i, one := range up.taken() {
		if want := "/" + string(rune('1'+i)); one.target != want || one.body != want {
			t.Errorf("request %d was %s %q, want %s twice", i, one.target, one.body, want)
		}
	}
}

func TestOversizedHeadersAre431(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.MaxHeader = 8 << 10
	g := start(t, c)
	request := func(size int) string {
		return "GET / HTTP/1.1\r\nHost: a.example\r\nCookie: " + strings.Repeat("x", size) + "\r\n\r\n"
	}
	if a := exchangeRaw(t, g, request(7<<10)); a.status != 200 {
		t.Errorf("7 KiB: %d, want 200", a.status)
	}
	up.one(t)
	a := exchangeRaw(t, g, request(9<<10))
	wantProblem(t, a, http.StatusRequestHeaderFieldsTooLarge)
	if !a.close {
		t.Error("the connection stays open, want it closed")
	}
	// So large that it is not read to its end.
	conn, r := dial(t, g)
	go func() { _, _ = io.WriteString(conn, request(10<<20)) }()
	if a, err := tryReceive(r, "GET"); err == nil && a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("10 MiB: %d, want 431, or the end of the connection", a.status)
	}
	// Many small headers count as much as a large one.
	a = exchangeRaw(t, g, "GET / HTTP/1.1\r\nHost: a.example\r\n"+strings.Repeat("A: b\r\n", 1500)+"\r\n")
	if a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("many headers: %d, want 431", a.status)
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %d requests, want none", len(seen))
	}
}
