package downstream

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A request with different lengths by Transfer-Encoding and Content-Length is read by the first, and no request is read
// after it.
func TestConnectionEndsAfterARequestWithTwoLengths(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the body: %v", err)
		}
		_, _ = io.WriteString(w, r.RequestURI+" "+string(body))
	}
	const chunks = "3\r\nabc\r\n0\r\n\r\n"
	post := func(version string, more ...string) string {
		return lines(append([]string{"POST /two HTTP/" + version, "Host: x"}, more...)...)
	}
	old := func(more ...string) string { return post("1.0", append(more, "Connection: keep-alive")...) }
	first := get("/first", "Connection: X-Odd") // net/http serves it and the following requests of its connection
	for name, c := range map[string]struct {
		text string
		n    int // earlier requests
		ends bool
		want string
	}{
		"length first":             {text: post("1.1", "Content-Length: 3", "Transfer-Encoding: chunked") + chunks, ends: true, want: "/two abc"},
		"chunks first":             {text: post("1.1", "Transfer-Encoding: chunked", "Content-Length: 100") + chunks, ends: true, want: "/two abc"},
		"in other letters":         {text: post("1.1", "TRANSFER-encoding: chunked", "conTENT-lengTH:3") + chunks, ends: true, want: "/two abc"},
		"not the first request":    {text: first + post("1.1", "Content-Length: 3", "Transfer-Encoding: chunked") + chunks, n: 1, ends: true, want: "/two abc"},
		"chunks of HTTP/1.0":       {text: old("Transfer-Encoding: chunked", "Content-Length: 2") + "ab", ends: true, want: "/two ab"},
		"chunks alone":             {text: post("1.1", "Transfer-Encoding: chunked") + chunks, want: "/two abc"},
		"a length and no chunks":   {text: first + post("1.1", "Content-Length: 3") + "abc", n: 1, want: "/two abc"},
		"a length of HTTP/1.0":     {text: old("Content-Length: 2") + "ab", want: "/two ab"},
		"a header named like it":   {text: post("1.1", "X-Content-Length: 3", "Transfer-Encoding: chunked") + chunks, want: "/two abc"},
		"a value that looks so":    {text: post("1.1", "X: content-length: 3", "Transfer-Encoding: chunked") + chunks, want: "/two abc"},
		"a name that goes on":      {text: post("1.1", "Content-Length-Of: 3", "Transfer-Encoding: chunked") + chunks, want: "/two abc"},
		"a line before it that is": {text: post("1.1", "X: a", "Content-Length: 3", "Transfer-Encoding: chunked") + chunks, ends: true, want: "/two abc"},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %t", name, secure), func(t *testing.T) {
				var change []func(*Server)
				if secure {
					change = append(change, withTLS(t))
				}
				s := start(t, h, change...)
				conn, r := dial(t, s.addr)
				if secure {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
					r = newReader(conn)
				}
				send(t, conn, c.text+get("/next"))
				for range c.n {
					receive(t, r, http.MethodGet)
				}
				a := receive(t, r, http.MethodPost)
				if a.status != http.StatusOK || a.body != c.want || a.close != c.ends {
					t.Errorf("%d %q, the last %t; want 200, %q, %t", a.status, a.body, a.close, c.want, c.ends)
				}
				if c.ends {
					wantEnd(t, r)
				} else if next := receive(t, r, http.MethodGet); next.body != "/next " {
					t.Errorf("then %q, want the response to /next", next.body)
				}
			})
		}
	}
}

// Wherever a line is cut into pieces, it is found.
func TestFramingIsSeenAcrossReads(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\n\n\nX: \nContent-Content-Length: 1\r\nContent-Length: 3\r\n\r\n"
	for i := range head {
		for j := i; j < len(head); j++ {
			var f framingScanner
			for _, piece := range []string{head[:i], head[i:j], head[j:]} {
				f.scan([]byte(piece))
			}
			if !f.contentLength.found.Load() || f.transferEncoding.found.Load() {
				t.Fatalf("in %q, %q, %q: got %t, %t; want a length alone", head[:i], head[i:j], head[j:], f.contentLength.found.Load(), f.transferEncoding.found.Load())
			}
		}
	}
	var f framingScanner
	f.scan([]byte(strings.ReplaceAll(head, "\nContent-Length", "\nContent Length")))
	if f.contentLength.found.Load() {
		t.Error("a length was seen, want none")
	}
}

// A request that is shorter than the HTTP/2 preface, or has no version in its first line, is refused at once, without
// waiting for the timeout.
func TestShortRequestsAreRefusedAtOnce(t *testing.T) {
	served := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }
	patient := func(s *Server) {
		s.HeaderTimeout, s.NetHTTP.ReadHeaderTimeout = 2*patience, 2*patience // longer than the deadline of the connection
	}
	plain, secure := start(t, served, patient), start(t, served, patient, withTLS(t))
	for _, text := range []string{
		"GET /x\r\n\r\n", "GET /\n\n", "\r\n\r\n", "\n\n", "x\r\n\r\n", "PRI *\r\n\r\n", "GET /x\r\n", "GET /\n", "\n",
		"GET /\r\nHost: example.com\r\n",
	} {
		conn, r := dial(t, plain.addr)
		send(t, conn, text)
		wantRefused(t, text, receive(t, r, http.MethodGet))
		conn, _ = dial(t, secure.addr)
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		send(t, conn, text)
		wantRefused(t, text+" over TLS", receive(t, newReader(conn), http.MethodGet))
	}
}

func wantRefused(t *testing.T, text string, a clientResponse) {
	t.Helper()
	if a.status != http.StatusBadRequest || !a.close {
		t.Errorf("%q: %d %q, the last %t; want 400 and the end", text, a.status, a.body, a.close)
	}
}
