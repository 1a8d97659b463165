package identity

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkIP reports an ip that is not the canonical text of a network that Addr is in.
func checkIP(t *testing.T, id *Identifier, r *http.Request) {
	t.Helper()
	var a Attributes
	id.Read(r, &a)
	ip, ok := a.Get(attr(t, "ip"))
	if !ok {
		t.Fatal("no ip although one is connected")
	}
	var p netip.Prefix
	if addr, err := netip.ParseAddr(ip); err == nil {
		p = netip.PrefixFrom(addr, addr.BitLen())
	} else if p, err = netip.ParsePrefix(ip); err != nil {
		t.Fatalf("ip = %q: %v", ip, err)
	}
	again := p.String()
	if p.IsSingleIP() {
		again = p.Addr().String()
	}
	if again != ip || p.Addr().Is4In6() || p.Addr().Zone() != "" || !p.Contains(a.Addr()) {
		t.Fatalf("ip = %q, Addr() = %v, want the canonical text of its network, %s", ip, a.Addr(), again)
	}
}

func fuzzForwarding(f *testing.F, header, proxyAdds string) {
	for _, tt := range forwardingCases {
		if len(tt.headers) > 0 {
			_, value, _ := strings.Cut(tt.headers[0], ": ")
			f.Add(value, "")
			if len(tt.headers) > 1 {
				_, second, _ := strings.Cut(tt.headers[1], ": ")
				f.Add(value, second)
			}
		}
	}
	id := newID(f, by(header))
	hops := newID(f, Config{Hops: 2, ForwardingHeader: header})
	f.Fuzz(func(t *testing.T, first, second string) {
		r := request("10.0.0.1:5", "/")
		r.Header[header] = []string{first, second}
		checkIP(t, id, r)
		checkIP(t, hops, r)
		// What a trusted proxy adds is what counts, whether on the same line or another.
		for _, lines := range [][]string{{first, second, proxyAdds}, {first, second + ", " + proxyAdds}, {first + "," + proxyAdds}} {
			r.Header[header] = lines
			if got := get(t, id, r, "ip"); got != "203.0.113.9" {
				t.Fatalf("%q: ip = %s, want 203.0.113.9", lines, got)
			}
		}
	})
}

func FuzzXForwardedFor(f *testing.F) { fuzzForwarding(f, "X-Forwarded-For", "203.0.113.9") }

func FuzzForwarded(f *testing.F) {
	fuzzForwarding(f, "Forwarded", `for="203.0.113.9:80";host="a\"b, \\";proto=https`)
}

func FuzzCanonicalPath(f *testing.F) {
	for _, seed := range []string{
		"/", "*", "/a/b", "/a//b/../c/./", "/%2e%2E/", "/a%2Fb", "/a%5Cb", `/a\b`, "/..;/x", "/a/..%2f..%2fb", "/%c3%a9", "/é", "/%", "/%zz", "/%00", "/;a=b",
		"/%252e", "/%3b%3A", "/admin;a=b/x", "/;a/admin/x", "/a;%2F..%2Fb/c", "/a%2F;x/b", "//..//", "/.well-known/.x",
	} {
		f.Add(seed, false, uint8(0), uint8(0))
		f.Add(seed, true, uint8(KeepSlash), uint8(KeepParameters))
		f.Add(seed, false, uint8(DecodeSlash), uint8(CutParameters))
	}
	f.Fuzz(func(t *testing.T, sent string, double bool, slash, parameters uint8) {
		checkCanonical(t, sent, PathRules{
			EncodedSlash: EncodedSlash(slash % 3), KeepDoubleSlashes: double, Parameters: Parameters(parameters % 3),
		})
	})
}

func FuzzCanonicalHost(f *testing.F) {
	for _, seed := range []string{"example.com", "API.Example.COM.:443", "[2001:DB8::1]:80", "a..b", "[::1%25eth0]", "192.0.2.1", ":", "[", "a:b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		got, err := CanonicalHost(sent)
		if err != nil {
			return
		}
		bracketed := got
		if strings.Contains(got, ":") {
			bracketed = "[" + got + "]"
		}
		if again, err := CanonicalHost(bracketed); err != nil || again != got || got != strings.ToLower(got) {
			t.Fatalf("%q: %q, and again %q, %v", sent, got, again, err)
		}
	})
}

// The oracle is net/url.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"q=1", "a=b&q=%20+x&q=2", "q=%zz&q=1", "q=1;2&q=3", "%71=x", "&&=&q", "q=="} {
		f.Add(seed, "q")
	}
	id := newID(f, Config{})
	f.Fuzz(func(t *testing.T, query, name string) {
		if len(query) > DefaultMaxQuery || name == "" || len(name) > 256 {
			return
		}
		values, _ := url.ParseQuery(query) // what is wrong is left out
		var a Attributes
		id.Read(&http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{}}, &a)
		var got []string
		p := a.parameters(name)
		for v, ok := p.next(); ok; v, ok = p.next() {
			got = append(got, v)
		}
		if want := values[name]; !slices.Equal(got, want) {
			t.Fatalf("%q of %q: got %q, want %q", name, query, got, want)
		}
	})
}

// The oracle is net/http, which leaves out cookies that are not well formed, and reads less into the others.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{"s=1", "a=b; s=\"x y\"; s=2", "s", "s=", ";;s=1", "s = 1", "=1", `s="`, "s=%31", "s=1%"} {
		f.Add(seed)
	}
	id := newID(f, Config{})
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > DefaultMaxCookies || strings.ContainsAny(line, "\r\n") { // which no line of a header has
			return
		}
		r := request("192.0.2.1:1", "/")
		r.Header["Cookie"] = []string{line}
		got := get(t, id, r, "cookie.s")
		cookies := r.CookiesNamed("s")
		all := strings.Count(line, "s") // a name that net/http leaves out may come first
		if len(cookies) != 1 || all != 1 {
			return
		}
		want := cookies[0].Value
		if !cookies[0].Quoted {
			want = strings.Trim(want, " \t")
		}
		if plain, err := url.PathUnescape(want); err == nil {
			want = plain
		}
		if want != "" && len(want) <= DefaultMaxValue && got != want {
			t.Fatalf("%q: cookie.s = %q, want %q", line, got, want)
		}
	})
}

// The oracle is net/http.
func FuzzBasic(f *testing.F) {
	for _, seed := range []string{"Basic YWxpY2U6eA==", "basic YWxpY2U6eA==", "Basic  YWxpY2U6eA==", "Basic Og==", "Basic", "Bearer x", "Basic YQ=="} {
		f.Add(seed)
	}
	id := newID(f, withBasic(Config{}))
	f.Fuzz(func(t *testing.T, header string) {
		if len(header) > maxInputBytes {
			return
		}
		r := request("192.0.2.1:1", "/")
		r.Header["Authorization"] = []string{header}
		got := get(t, id, r, "user")
		user, _, ok := r.BasicAuth()
		if ok && user != "" && len(user) <= DefaultMaxValue && utf8.ValidString(user) && trimAnySpace(user) == user && !hasControl(user) &&
			!strings.ContainsAny(header, "\r\n") && got != user {
			t.Fatalf("%q: user = %q, want %q", header, got, user)
		}
		if !ok && got != "-" {
			// White space around the credentials and missing padding are accepted too, and a user without a colon.
			text := strings.TrimRight(strings.Trim(header, " \t")[len("Basic"):], "=")
			plain, err := base64.RawStdEncoding.DecodeString(strings.Trim(text, " \t"))
			if user, valid := userOf(plain); err != nil || !valid || string(user) != got {
				t.Fatalf("%q: user = %q, which it does not say", header, got)
			}
		}
	})
}
