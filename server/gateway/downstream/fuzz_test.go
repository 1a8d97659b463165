package downstream

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// heads are requests of all kinds.
var heads = []string{
	get("/"),
	get("/a/b.html?x=1&y=%20", "User-Agent: x", "Accept: */*"),
	get("/a%2Fb/../c?"),
	get("/a?b?c"),
	get("/x(y)!*'", "X-API-key: 1", "x-api-key: 2"),
	get("/", "Connection: close"),
	get("/", "connection: Keep-Alive", "Pragma: no-cache"),
	get("/", "Pragma: no-cache", "Cache-Control: max-age=1"),
	get("/", "Pragma: x", "Pragma: no-cache"),
	get("/", "Connection: close, X-A"),
	get("/", "Connection: close", "Connection: close"),
	get("/", "Content-Length: 0"),
	get("/", "Content-Length: 5") + "hello",
	get("/", "Content-Length: 5", "Content-Length: 5") + "hello",
	get("/", "Content-Length: +5"),
	get("/", "Content-Length: 5, 5"),
	get("/", "Content-Length: 99999999999999999999"),
	get("/", "Transfer-Encoding: chunked") + "0\r\n\r\n",
	get("/", "Transfer-Encoding : chunked"),
	get("/", "Trailer: X"),
	get("/", "Expect: 100-continue", "Content-Length: 1"),
	get("/", "Upgrade: websocket", "Connection: Upgrade"),
	get("/", "Host: other"),
	get("/", "X: a\x00b"),
	get("/", "X:\ta \t"),
	get("/", "X:"),
	get("/", ": x"),
	get("/", "X Y: z"),
	get("/", " folded: x"),
	get("/", "A: b", " c"),
	get("//example.com/x"),
	get("*"),
	get("http://example.com/"),
	get("/#fragment"),
	get("/a b"),
	get("/\x7f"),
	get("/ä"),
	get("/%zz"),
	get("/%"),
	get("/:80/x"),
	"GET / HTTP/1.1\nHost: x\n\n",
	"GET / HTTP/1.1\r\nHost: x\n\r\n",
	"GET / HTTP/1.0\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
	"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
	"get / HTTP/1.1\r\nHost: x\r\n\r\n",
	"CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n",
	"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"M-SEARCH / HTTP/1.1\r\nHost: x\r\n\r\n",
}

// readHere parses a request like conn. It returns nil if the request is for net/http.
func readHere(text string) (*http.Request, int) {
	b := []byte(text)
	scanned := 0
	end := http1.HeadEnd(b, &scanned)
	var h requestHead
	if end == 0 || end > maxHead || !h.parse(b[:end]) {
		return nil, 0
	}
	r := &http.Request{Header: http.Header{}}
	if !h.fill(r, new(url.URL), string(b[:end]), make([]string, len(h.fields))) {
		return nil, 0
	}
	return r, end
}

// FuzzRequest tests that requests which are served here are read as by net/http.
func FuzzRequest(f *testing.F) {
	for _, text := range heads {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, end := readHere(text)
		if got == nil {
			return // net/http serves it
		}
		reader := bufio.NewReaderSize(strings.NewReader(text), len(text)+16)
		want, err := http.ReadRequest(reader)
		if err != nil {
			t.Fatalf("%q is served, but net/http says %v", text, err)
		}
		if rest := len(text) - reader.Buffered(); rest != end {
			t.Errorf("%q: the head has %d bytes, want %d", text, end, rest)
		}
		// Checks of net/http's server beyond parsing.
		if want.ProtoMajor != 1 || want.ProtoMinor != 1 || len(want.TransferEncoding) > 0 || want.Trailer != nil {
			t.Fatalf("%q is served, but is %+v", text, want)
		}
		if !httpguts.ValidHostHeader(want.Host) || want.Host == "" {
			t.Fatalf("%q is served, but its host is not valid", text)
		}
		delete(want.Header, "Host")
		for name, values := range want.Header {
			for _, value := range values {
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
					t.Fatalf("%q is served, but net/http refuses %q: %q", text, name, value)
				}
			}
		}
		for _, c := range []struct {
			what      string
			got, want any
		}{
			{"method", got.Method, want.Method},
			{"target", got.RequestURI, want.RequestURI},
			{"URL", got.URL, want.URL},
			{"host", got.Host, want.Host},
			{"header", got.Header, want.Header},
			{"length", got.ContentLength, want.ContentLength},
			{"close", got.Close, want.Close},
		} {
			if !reflect.DeepEqual(c.got, c.want) {
				t.Errorf("%q: %s %#v, want %#v", text, c.what, c.got, c.want)
			}
		}
		// net/http, which gets it next, reads the same.
		b := []byte(text)
		var h requestHead
		h.parse(b[:end])
		again, err := http.ReadRequest(bufio.NewReaderSize(bytes.NewReader(b), len(b)+16))
		if err != nil || again.Host != want.Host || !reflect.DeepEqual(again.Header, want.Header) {
			t.Errorf("%q: after parsing, net/http reads %+v, %v", text, again, err)
		}
	})
}

func TestRequestsServedHereOrByNetHTTP(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{get("/"), true},
		{get("/a%2Fb?x=%20", "Accept: */*"), true},
		{get("/x", "Content-Length: 3"), true},
		{get("/x", "Connection: close"), true},
		{get("/x", "CONNECTION: Keep-Alive"), true},
		{"POST / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", true},
		{get("/x", "Connection: X-Secret"), false},
		{get("/x", "Connection: close", "Connection: close"), false},
		{get("/x", "Transfer-Encoding: chunked"), false},
		{get("/x", "Content-Length: 3", "Content-Length: 3"), false},
		{get("/x", "Content-Length: 3, 3"), false},
		{get("/x", "Content-Length: -1"), false},
		{get("/x", "Expect: 100-continue"), false},
		{get("/x", "Trailer: X"), false},
		{get("/x", "Upgrade: websocket"), false},
		{get("/x", "HTTP2-Settings: x"), false},
		{get("/x", "Host: another"), false},
		{get("/x", "A: b", " folded"), false},
		{get("/x", "A : b"), false},
		{get("/x", "A\x00: b"), false},
		{get("/x", "A: \x01"), false},
		{get("//x"), false},
		{get("http://example.com/"), false},
		{get("*"), false},
		{get("/#x"), false},
		{get("/%zz"), false},
		{"GET / HTTP/1.0\r\nHost: x\r\n\r\n", false},
		{"GET / HTTP/1.1\r\n\r\n", false},
		{"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", false},
		{"GET / HTTP/1.1\nHost: x\n\n", false},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
		{get("/x", "A: "+strings.Repeat("a", maxHead)), false},
	} {
		if r, _ := readHere(c.text); (r != nil) != c.want {
			t.Errorf("%.100q is served here: %t, want %t", c.text, r != nil, c.want)
		}
	}
}
