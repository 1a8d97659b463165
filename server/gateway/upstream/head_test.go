package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// compose returns the head that is sent for a request.
func compose(t testing.TB, r *http.Request, h Head) (string, error) {
	t.Helper()
	p := newPool(t, Config{Address: "upstream.test:80"})
	b, err := p.describeBody(r)
	if err != nil {
		return "", err
	}
	head, err := appendHead(nil, r, &h, &b)
	return string(head), err
}

func TestAmbiguousRequestIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *http.Request, h *Head)
		want   error
	}{
		{"a line break in a value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"1\r\nX-B: 2"} }, http1.ErrFieldValue},
		{"a lone LF in a value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"1\n2"} }, http1.ErrFieldValue},
		{"a lone CR in a value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"1\r2"} }, http1.ErrFieldValue},
		{"a folded value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"1\r\n 2"} }, http1.ErrFieldValue},
		{"a NUL in a value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"1\x002"} }, http1.ErrFieldValue},
		{"DEL in a value", func(r *http.Request, _ *Head) { r.Header["X-A"] = []string{"\x7f"} }, http1.ErrFieldValue},
		{"a space in a name", func(r *http.Request, _ *Head) { r.Header["Content-Length "] = []string{"5"} }, http1.ErrFieldName},
		{"a colon in a name", func(r *http.Request, _ *Head) { r.Header["A:b"] = []string{"5"} }, http1.ErrFieldName},
		{"a line break in a name", func(r *http.Request, _ *Head) { r.Header["A\r\nB"] = []string{"5"} }, http1.ErrFieldName},
		{"no name", func(r *http.Request, _ *Head) { r.Header[""] = []string{"5"} }, http1.ErrFieldName},
		{"a name above ASCII", func(r *http.Request, _ *Head) { r.Header["X-ſ"] = []string{"5"} }, http1.ErrFieldName},
		{"a line break in a field", func(_ *http.Request, h *Head) { h.Fields = []Field{{"X-A", "1\r\nX-B: 2"}} }, http1.ErrFieldValue},
		{"a space in a field's name", func(_ *http.Request, h *Head) { h.Fields = []Field{{"X A", "1"}} }, http1.ErrFieldName},
		{"a length as field", func(_ *http.Request, h *Head) { h.Fields = []Field{{"content-length", "1"}} }, errFraming},
		{"an encoding as field", func(_ *http.Request, h *Head) { h.Fields = []Field{{"Transfer-Encoding", "chunked"}} }, errFraming},
		{"a host as field", func(_ *http.Request, h *Head) { h.Fields = []Field{{"Host", "b"}} }, errFraming},
		{"a space in the target", func(_ *http.Request, h *Head) { h.Target = "/ HTTP/1.1" }, errTarget},
		{"a line break in the target", func(_ *http.Request, h *Head) { h.Target = "/\r\nX: y" }, errTarget},
		{"a fragment in the target", func(_ *http.Request, h *Head) { h.Target = "/a#b" }, errTarget},
		{"a target above ASCII", func(_ *http.Request, h *Head) { h.Target = "/é" }, errTarget},
		{"an absolute target", func(_ *http.Request, h *Head) { h.Target = "http://b/" }, errTarget},
		{"an asterisk", func(_ *http.Request, h *Head) { h.Target = "*" }, errTarget},
		{"a line break in the host", func(_ *http.Request, h *Head) { h.Host = "a\r\nX: y" }, errHost},
		{"a space in the host", func(_ *http.Request, h *Head) { h.Host = "a b" }, errHost},
		{"a slash in the host", func(_ *http.Request, h *Head) { h.Host = "a/b" }, errHost},
		{"a user in the host", func(_ *http.Request, h *Head) { h.Host = "a@b" }, errHost},
		{"a space in the method", func(r *http.Request, _ *Head) { r.Method = "GET /x" }, errMethod},
		{"CONNECT", func(r *http.Request, _ *Head) { r.Method = "CONNECT" }, errConnect},
		{"a length without body", func(r *http.Request, _ *Head) { r.Body, r.ContentLength = nil, 5 }, errNoBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			var h Head
			tt.change(r, &h)
			p := newPool(t, Config{Address: "127.0.0.1:1"})
			w := httptest.NewRecorder()
			out, err := p.Forward(context.Background(), w, r, h)
			if !errors.Is(err, tt.want) || fault(err) != FaultRequest || out.Sent || out.Repeatable {
				t.Errorf("got %v and %+v, want %v and nothing sent", err, out, tt.want)
			}
			var failed *Error
			if errors.As(err, &failed) && failed.Status() != http.StatusBadRequest {
				t.Errorf("status: got %d, want 400", failed.Status())
			}
			if s := p.Stats(); s.Dials != 0 {
				t.Errorf("%d connections were made for it, want none", s.Dials)
			}
		})
	}
}

func TestHopByHopHeadersAreNotForwarded(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	for name, value := range map[string]string{
		"Connection": "close, X-Secret,x-forwarded-for , Upgrade", "X-Secret": "1", "X-Forwarded-For": "2", "Keep-Alive": "3",
		"Proxy-Connection": "4", "Te": "gzip", "Trailer": "X-T", "Transfer-Encoding": "gzip", "Upgrade": "h2c", "Host": "evil",
		"Content-Length": "7", "Http2-Settings": "x", "Proxy-Authorization": "Basic x", "Proxy-Authenticate": "y", "Expect": "z",
		"transfer-encoding": "chunked", "content-length": "8", "TRAILER": "9", "cOnnection": "a",
	} {
		r.Header[name] = []string{value}
	}
	r.Header["X-Kept"] = []string{"a", "b"}
	got, err := compose(t, r, Head{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "GET / HTTP/1.1\r\nHost: example.com\r\nX-Kept: a\r\nX-Kept: b\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCallerFieldsReplaceClientHeaders(t *testing.T) {
	r := httptest.NewRequest("GET", "/client?a", nil)
	r.Header["X-Forwarded-For"] = []string{"6.6.6.6", "7.7.7.7"}
	r.Header["X-User-Id"] = []string{"admin"}
	got, err := compose(t, r, Head{Target: "/caller?b", Host: "inner:80", Fields: []Field{
		{"x-forwarded-for", "1.2.3.4"}, {"X-Request-Id", "r1"}, {"X-User-ID", ""},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := "GET /caller?b HTTP/1.1\r\nHost: inner:80\r\nx-forwarded-for: 1.2.3.4\r\nX-Request-Id: r1\r\n\r\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTETrailersIsForwarded(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["Te"] = []string{"gzip;q=0.5, Trailers"}
	got, err := compose(t, r, Head{})
	if want := "GET / HTTP/1.1\r\nHost: example.com\r\nTE: trailers\r\n\r\n"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestAsteriskTargetNeedsOPTIONS(t *testing.T) {
	r := httptest.NewRequest("OPTIONS", "*", nil)
	got, err := compose(t, r, Head{Target: "*"})
	if want := "OPTIONS * HTTP/1.1\r\n"; err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("got %q, %v, want it to begin with %q", got, err, want)
	}
}

func TestRequestHasOneFramingHeader(t *testing.T) {
	for _, tt := range []struct {
		method string
		body   io.Reader
		length int64
		want   string
	}{
		{"GET", nil, 0, ""},
		{"DELETE", nil, 0, ""},
		{"POST", nil, 0, "Content-Length: 0"},
		{"PUT", nil, 0, "Content-Length: 0"},
		{"POST", strings.NewReader("abc"), 3, "Content-Length: 3"},
		{"GET", strings.NewReader("abc"), 3, "Content-Length: 3"},
		{"POST", strings.NewReader("abc"), -1, "Transfer-Encoding: chunked"},
		{"GET", strings.NewReader("abc"), -1, "Transfer-Encoding: chunked"},
	} {
		r := httptest.NewRequest(tt.method, "/", tt.body)
		r.ContentLength = tt.length
		// The client's own headers about the connection are there as well.
		r.Header["Content-Length"] = []string{"99"}
		r.Header["Transfer-Encoding"] = []string{"identity"}
		head, err := compose(t, r, Head{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.SplitSeq(head, "\r\n") {
			if strings.HasPrefix(line, "Content-Length") || strings.HasPrefix(line, "Transfer-Encoding") {
				got = append(got, line)
			}
		}
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s of length %d: got %q, want %q", tt.method, tt.length, got, tt.want)
		}
	}
}

// FuzzRequestHead looks for requests that the upstream would read differently, or as several requests.
func FuzzRequestHead(f *testing.F) {
	f.Add("GET", "/", "a.example", "X-A", "1", "X-B", "2", int64(0))
	f.Add("POST", "/a?b", "[::1]:80", "Content-Length", "5", "Transfer-Encoding", "chunked", int64(3))
	f.Add("PUT", "/a b", "a\r\nX: y", "Connection", "X-B", "X-B", "2", int64(-1))
	f.Add("GET", "/\r\n\r\nGET /x HTTP/1.1", "a", "content-length", "1\r\n", "X\r\n", "\x00", int64(0))
	f.Add("OPTIONS", "*", "", "Host", "evil", "Te", "trailers", int64(0))
	f.Fuzz(func(t *testing.T, method, target, host, name1, value1, name2, value2 string, length int64) {
		r := &http.Request{Method: method, Host: "default.example", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
			name1: {value1}, name2: {value2},
		}, ContentLength: length % 10, Body: io.NopCloser(strings.NewReader("123456789"))}
		p := &Pool{config: Config{MaxBufferedBody: 100}}
		b, err := p.describeBody(r)
		if err != nil {
			return
		}
		h := Head{Target: target, Host: host}
		head, err := appendHead(nil, r, &h, &b)
		if err != nil {
			return
		}
		if strings.Count(string(head), "\r\n\r\n") != 1 || !strings.HasSuffix(string(head), "\r\n\r\n") {
			t.Fatalf("the head has not just one end: %q", head)
		}
		in := bufio.NewReader(strings.NewReader(string(head)))
		got, err := http.ReadRequest(in)
		if err != nil {
			// net/http knows no targets such as /%; the caller is responsible for them.
			if strings.Contains(err.Error(), "invalid URL escape") || strings.Contains(err.Error(), "parse") {
				return
			}
			t.Fatalf("the upstream would refuse it: %v: %q", err, head)
		}
		if want := max(length%10, -1); b.mode != noBody && got.ContentLength != want || b.mode == noBody && got.ContentLength != 0 {
			t.Fatalf("length: got %d, want %d: %q", got.ContentLength, want, head)
		}
		if target != "" && got.RequestURI != target {
			t.Fatalf("target: got %q, want %q", got.RequestURI, target)
		}
		for name := range got.Header {
			if http1.IsReserved(name) && !slices.Contains([]string{"Te", "Content-Length", "Expect"}, name) {
				t.Fatalf("%s was sent on: %q", name, head)
			}
		}
	})
}
