package identity

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate"
)

var sink string

func BenchmarkRead(b *testing.B) {
	plain := newID(b, Config{})
	proxied := newID(b, Config{TrustedProxies: nets(b, "10.0.0.0/8, 192.0.2.0/24, 198.51.100.0/24, 2001:db8::/32")})
	forwarded := newID(b, by("Forwarded"))
	headers := []string{
		"User-Agent: Mozilla/5.0", "Accept: */*", "X-Plan: gold", "X-API-Key: 0123456789abcdef", "Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl",
		"Cookie: _ga=GA1.2.1234567890.1234567890; theme=dark; session=0123456789abcdef0123456789abcdef",
	}
	direct := request("203.0.113.9:4711", "http://api.example.com/search/items?page=2&q=shoes", headers...)
	six := request("[2600:1f18::1]:4711", "http://api.example.com/search/items", headers...)
	behind := request("10.0.0.1:4711", "http://api.example.com/search/items", append(headers, "X-Forwarded-For: 203.0.113.9, 192.0.2.4, 10.0.0.7")...)
	standard := request("10.0.0.1:4711", "http://api.example.com/search/items", append(headers, `Forwarded: for=203.0.113.9;proto=https;host=api.example.com, for="10.0.0.7:80"`)...)
	for _, bb := range []struct {
		name  string
		id    *Identifier
		r     *http.Request
		attrs []string
	}{
		{"nothing", plain, direct, nil},
		{"ip", plain, direct, []string{"ip"}},
		{"ip6", plain, six, []string{"ip"}},
		{"ip/X-Forwarded-For", proxied, behind, []string{"ip"}},
		{"ip/Forwarded", forwarded, standard, []string{"ip"}},
		{"host", plain, direct, []string{"host"}},
		{"path", plain, direct, []string{"path"}},
		{"segment", plain, direct, []string{"segment.2"}},
		{"header", plain, direct, []string{"header.x-plan"}},
		{"cookie", plain, direct, []string{"cookie.session"}},
		{"query", plain, direct, []string{"query.q"}},
		{"api_key", plain, direct, []string{"api_key"}},
		{"bearer", plain, direct, []string{"bearer"}},
		{"usual", proxied, behind, []string{"ip", "method", "host", "path", "header.x-plan", "api_key"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var a Attributes
			asked := make([]headgate.Attribute, len(bb.attrs))
			for i, name := range bb.attrs {
				asked[i] = attr(b, name)
			}
			for b.Loop() {
				bb.id.Read(bb.r, &a)
				for _, attr := range asked {
					sink, _ = a.Get(attr)
				}
			}
		})
	}
	b.Run("malformed", func(b *testing.B) {
		b.ReportAllocs()
		var a Attributes
		for b.Loop() {
			proxied.Read(behind, &a)
			if err := a.Validate(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCanonicalPath(b *testing.B) {
	for _, path := range []string{"/search/items", "/caf%C3%A9/x", "/search/../%61//b"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = CanonicalPath(path, PathRules{})
			}
		})
	}
}
