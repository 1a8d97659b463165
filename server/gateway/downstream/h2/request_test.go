package h2

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// line returns the fields of a request line.
func line(method, path string) []string {
	return []string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}
}

func TestMalformedRequestsResetTheStream(t *testing.T) {
	served := make(chan string, 100)
	s := newServer(t, func(_ http.ResponseWriter, r *http.Request) { served <- r.RequestURI })
	c := connect(t, s)
	id := uint32(1)
	for name, fields := range map[string][]string{
		"no method":                   {":scheme", "http", ":authority", "a", ":path", "/"},
		"no scheme":                   {":method", "GET", ":authority", "a", ":path", "/"},
		"no path":                     {":method", "GET", ":scheme", "http", ":authority", "a"},
		"no fields":                   {},
		"an empty path":               line("GET", ""),
		"another scheme":              {":method", "GET", ":scheme", "ftp", ":authority", "a", ":path", "/"},
		"two methods":                 append(line("GET", "/"), ":method", "GET"),
		"two paths":                   append(line("GET", "/"), ":path", "/y"),
		"a method with a space":       line("GE T", "/"),
		"a method with a line break":  line("GET\r\nX: y", "/"),
		"a path with a line break":    line("GET", "/ HTTP/1.1\r\nX: y"),
		"a path that is no path":      line("GET", "x"),
		"a path that is a URL":        line("GET", "http://b.example/"),
		"a path of OPTIONS only":      line("GET", "*"),
		"a query with a tab":          line("GET", "/x?a\tb"),
		"a path with half an escape":  line("GET", "/%2"),
		"an authority with a user":    {":method", "GET", ":scheme", "http", ":authority", "u@a", ":path", "/"},
		"an unknown pseudo field":     getFields(":version", "2"),
		"a pseudo field of responses": append(line("GET", "/"), ":status", "200"),
		"extended CONNECT":            append(line("CONNECT", "/"), ":protocol", "websocket"),
		"CONNECT with a path":         {":method", "CONNECT", ":authority", "a", ":path", "/", ":scheme", "http"},
		"CONNECT without authority":   {":method", "CONNECT"},
		"a pseudo field at the end":   {":method", "GET", ":scheme", "http", "x-a", "b", ":authority", "a", ":path", "/"},
		"a capital":                   getFields("X-A", "b"),
		"a name with a space":         getFields("x a", "b"),
		"a name with a colon":         getFields("x:a", "b"),
		"an empty name":               getFields("", "b"),
		"a name with a line break":    getFields("x\r\ny", "b"),
		"a value with a line break":   getFields("x-a", "b\r\nc: d"),
		"a value with LF":             getFields("x-a", "b\nc: d"),
		"a value with NUL":            getFields("x-a", "b\x00"),
		"a value that begins blank":   getFields("x-a", " b"),
		"a value that ends blank":     getFields("x-a", "b\t"),
		"Connection":                  getFields("connection", "close"),
		"Keep-Alive":                  getFields("keep-alive", "timeout=5"),
		"Proxy-Connection":            getFields("proxy-connection", "close"),
		"Transfer-Encoding":           getFields("transfer-encoding", "chunked"),
		"Upgrade":                     getFields("upgrade", "websocket"),
		"TE":                          getFields("te", "gzip"),
		"another Host":                getFields("host", "b.example"),
		"two Hosts":                   getFields("host", "a.example", "host", "a.example"),
		"two lengths":                 getFields("content-length", "0", "content-length", "0"),
		"a length that is none":       getFields("content-length", "+1"),
		"a negative length":           getFields("content-length", "-1"),
		"lengths in a list":           getFields("content-length", "1, 1"),
		"a length without a body":     getFields("content-length", "1"),
	} {
		c.headers(id, true, fields...)
		f, ok := c.read().(*http2.RSTStreamFrame)
		if !ok || f.StreamID != id || f.ErrCode != http2.ErrCodeProtocol {
			t.Fatalf("%s: got %v, want stream %d to be reset with PROTOCOL_ERROR", name, f, id)
		}
		id += 2
	}
	select {
	case got := <-served:
		t.Errorf("the handler has got %s, want nothing", got)
	default:
	}
	c.headers(id, true, getFields()...)
	c.ok(id)
}

// seen is what a handler sees of a request.
type seen struct {
	Method, Proto, Target, Host string
	URL                         *url.URL
	Header, Trailer             http.Header
	Length                      int64
	Body                        string
}

func report(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	_ = json.NewEncoder(w).Encode(seen{
		r.Method, r.Proto, r.RequestURI, r.Host, r.URL, r.Header, r.Trailer, r.ContentLength, string(b),
	})
}

// connectNetHTTP connects to net/http's server.
func connectNetHTTP(t *testing.T, h http.HandlerFunc) *client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler: h, Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true,
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := newClient(t, nc)
	c.write([]byte(http2.ClientPreface))
	c.must(c.framer.WriteSettings())
	for _, kind := range []http2.FrameType{http2.FrameSettings, http2.FramePing} {
		c.skip[kind] = true
	}
	return c
}

func TestRequestsMatchNetHTTP(t *testing.T) {
	ours, reference := connect(t, newServer(t, report)), connectNetHTTP(t, report)
	id := uint32(1)
	for name, tt := range map[string]struct {
		fields   []string
		body     string
		trailers []string
	}{
		"plain":          {fields: getFields()},
		"a query":        {fields: line("GET", "/x?a=b&c")},
		"an empty query": {fields: line("GET", "/x?")},
		"escapes":        {fields: line("GET", "/a%20b%2Fc?d%20")},
		"a fragment":     {fields: line("GET", "/a?b#c")},
		"a space":        {fields: line("GET", "/a b")},
		"two slashes":    {fields: line("GET", "//a/b")},
		"other bytes":    {fields: line("GET", "/\xc3\xa4?\xff")},
		"an asterisk":    {fields: line("OPTIONS", "*")},
		"CONNECT":        {fields: []string{":method", "CONNECT", ":authority", "a:443"}},
		"no authority":   {fields: []string{":method", "GET", ":scheme", "https", ":path", "/"}},
		"cookies":        {fields: getFields("cookie", "a=b", "cookie", "c=d", "cookie", "e=f")},
		"several values": {fields: getFields("x-a", "1", "accept", "a/b", "x-a", "2", "x-a", "3")},
		"empty values":   {fields: getFields("x-a", "", "x-a", "")},
		"te":             {fields: getFields("te", "trailers", "grpc-timeout", "1S", "user-agent", "x")},
		"a body":         {fields: postFields("content-length", "5"), body: "hello"},
		"a long body":    {fields: postFields(), body: strings.Repeat("0123456789", 150)},
		"an empty body":  {fields: postFields("content-length", "0"), trailers: []string{"x-none", "1"}},
		"trailers": {
			fields: postFields("trailer", "x-sum, X-More", "trailer", "Content-Length"), body: "hello",
			trailers: []string{"x-sum", "1", "x-sum", "2", "x-other", "3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, c := range []*client{ours, reference} {
				c.t = t
				c.headers(id, tt.body == "" && tt.trailers == nil, tt.fields...)
				if tt.body != "" {
					c.data(id, tt.trailers == nil, tt.body)
				}
				if tt.trailers != nil {
					c.headers(id, true, tt.trailers...)
				}
				a := c.receive(id)
				got[i] = fmt.Sprint(a.status, a.body, a.header["content-type"])
			}
			id += 2
			if got[0] != got[1] {
				t.Errorf("got  %s\nwant %s", got[0], got[1])
			}
		})
	}
}

func TestHostReplacesMissingAuthority(t *testing.T) {
	c := connect(t, newServer(t, report))
	for i, fields := range [][]string{
		{":method", "GET", ":scheme", "http", ":path", "/", "host", "a.example"},
		getFields("host", "A.example"),
	} {
		id := uint32(2*i + 1)
		c.headers(id, true, fields...)
		var got seen
		if err := json.Unmarshal([]byte(c.ok(id).body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Host != "a.example" || got.Header["Host"] != nil {
			t.Errorf("got host %q, header %v, want a.example and no Host", got.Host, got.Header)
		}
	}
}

// A header that is too large gets 431, and does not harm later requests.
func TestOversizedHeaders(t *testing.T) {
	s := newServer(t, report)
	c := connect(t, s)
	long := strings.Repeat("x", 6000)
	c.headers(1, true, getFields("x-a", long, "x-b", long, "x-c", long)...)
	if a := c.receive(1); a.status != "431" {
		t.Errorf("got status %s, want 431", a.status)
	}
	c.headers(3, true, getFields()...)
	c.ok(3)
}
