package upstream

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

const typicalResponse = "HTTP/1.1 200 OK\r\nServer: demo\r\nDate: Sat, 15 Nov 2025 09:00:00 GMT\r\nContent-Type: application/json\r\n" +
	"Content-Length: 27\r\nX-Request-Cost: 1\r\n\r\n" + `{"id":42,"name":"headgate"}`

func typicalRequest() *http.Request {
	r := httptest.NewRequest("GET", "/v1/items/42?expand=all", nil)
	r.Body = http.NoBody
	r.Header = http.Header{
		"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}, "Accept": {"application/json"},
		"Accept-Language": {"en-US,en;q=0.5"}, "Accept-Encoding": {"gzip, deflate, br"}, "X-Api-Key": {"0123456789abcdef"},
		"Cookie": {"session=0123456789abcdef0123456789abcdef"},
	}
	return r
}

func typicalHead() Head {
	return Head{Target: "/v1/items/42?expand=all", Host: "api.example.com", Fields: []Field{
		{"X-Forwarded-For", "203.0.113.9"}, {"X-Forwarded-Proto", "https"}, {"X-Request-Id", "0123456789abcdef"},
	}}
}

func BenchmarkRequestHead(b *testing.B) {
	r, h := typicalRequest(), typicalHead()
	var body requestBody
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, err = appendHead(out[:0], r, &h, &body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResponseHead(b *testing.B) {
	var h responseHead
	text, block := []byte(typicalResponse), make([]byte, len(typicalResponse))
	b.ReportAllocs()
	for b.Loop() {
		copy(block, text)
		from := 0
		if err := h.parse(block[:http1.HeadEnd(block, &from)]); err != nil {
			b.Fatal(err)
		}
	}
}

// constantUpstream returns a pool whose upstream responds to each request, which has no body, with the same response,
// and allocates nothing for it.
func constantUpstream(tb testing.TB, response string) *Pool {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = respondToAll(l, []byte(response))
	}()
	tb.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return newPool(tb, Config{Address: l.Addr().String()})
}

// A sink is a ResponseWriter that keeps nothing.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.bytes += len(b); return len(b), nil }

func BenchmarkForward(b *testing.B) {
	p := constantUpstream(b, typicalResponse)
	r, h := typicalRequest(), typicalHead()
	w := &sink{header: http.Header{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		if _, err := p.Forward(ctx, w, r, h); err != nil {
			b.Fatal(err)
		}
	}
}
