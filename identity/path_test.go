package identity

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestCanonicalPath(t *testing.T) {
	keep, decode := PathRules{EncodedSlash: KeepSlash}, PathRules{EncodedSlash: DecodeSlash}
	double := PathRules{KeepDoubleSlashes: true}
	named, cut := PathRules{Parameters: KeepParameters}, PathRules{Parameters: CutParameters}
	slashed := PathRules{Parameters: CutParameters, EncodedSlash: DecodeSlash}
	for _, tt := range []struct {
		rules      PathRules
		sent, want string // "!" is malformed
	}{
		{sent: "/", want: "/"},
		{sent: "", want: "/"},
		{sent: "*", want: "*"},
		{sent: "/search", want: "/search"},
		{sent: "/search/", want: "/search/"},
		{sent: "/a/b.c/~d/e-f_g", want: "/a/b.c/~d/e-f_g"},
		{sent: "/.well-known/x", want: "/.well-known/x"},
		{sent: "/...", want: "/..."},
		{sent: "/..a/.b/c..", want: "/..a/.b/c.."},
		// What may stand for itself does.
		{sent: "/%73earch", want: "/search"},
		{sent: "/%7Euser/%2d", want: "/~user/-"},
		{sent: "/v1/models%3Apredict", want: "/v1/models:predict"},
		{sent: "/a%40b%21%24%26%27%28%29%2A%2B%2C%3D", want: "/a@b!$&'()*+,="},
		{sent: "/caf%c3%a9", want: "/caf%C3%A9"},
		{sent: "/café", want: "/caf%C3%A9"},
		{sent: "/a b", want: "/a%20b"},
		{sent: "/100%25", want: "/100%25"},
		{sent: "/%2561", want: "/%2561"}, // once
		{sent: "/a%3Fb%23c", want: "/a%3Fb%23c"},
		{sent: "/a%3bv=1/b", want: "/a%3Bv=1/b"},
		{sent: "/%0d%0a", want: "/%0D%0A"},
		{sent: "/[x]|^`{}\"<>", want: "/%5Bx%5D%7C%5E%60%7B%7D%22%3C%3E"},
		// Dots.
		{sent: "/a/./b", want: "/a/b"},
		{sent: "/a/../b", want: "/b"},
		{sent: "/a/%2e%2E/b", want: "/b"},
		{sent: "/a/.%2e/b", want: "/b"},
		{sent: "/a/b/..", want: "/a/"},
		{sent: "/a/b/.", want: "/a/b/"},
		{sent: "/..", want: "/"},
		{sent: "/../../etc/passwd", want: "/etc/passwd"},
		{sent: "/public/../admin", want: "/admin"},
		{sent: "/a/b/../../..", want: "/"},
		{sent: "/.", want: "/"},
		// Slashes.
		{sent: "//", want: "/"},
		{sent: "//a///b//", want: "/a/b/"},
		{sent: "/a//../b", want: "/b"},
		{sent: "//evil.example/x", want: "/evil.example/x"},
		{rules: double, sent: "//a///b//", want: "//a///b//"},
		{rules: double, sent: "/a//../b", want: "/a/b"},
		{rules: double, sent: "//..", want: "/"},
		{rules: double, sent: "/a//./b", want: "/a//b"},
		// Encoded slashes.
		{sent: "/a%2Fb", want: "!"},
		{sent: "/a%5cb", want: "!"},
		{sent: `/a\b`, want: "!"},
		{rules: keep, sent: "/a%2fb/c%5C", want: "/a%2Fb/c%5C"},
		{rules: keep, sent: `/a\b`, want: "/a%5Cb"},
		{rules: keep, sent: "/@scope%2Fpackage", want: "/@scope%2Fpackage"},
		{rules: keep, sent: "/public/..%2Fadmin", want: "!"},
		{rules: keep, sent: "/public/x%2F..%2Fadmin", want: "!"},
		{rules: keep, sent: "/public/x%2F.", want: "!"},
		{rules: keep, sent: "/public/%2e%2e%5cadmin", want: "!"},
		{rules: keep, sent: "/public/..a%2F.b", want: "/public/..a%2F.b"},
		{rules: decode, sent: "/a%2Fb", want: "/a/b"},
		{rules: decode, sent: `/a%5Cb\c`, want: "/a/b/c"},
		{rules: decode, sent: "/public/..%2Fadmin", want: "/admin"},
		{rules: decode, sent: "/a%2F%2Fb", want: "/a/b"},
		{rules: decode, sent: "%2Fa", want: "!"},
		// Parameters.
		{sent: "/a;v=1/b", want: "!"},
		{sent: "/admin;", want: "!"},
		{sent: "/;a/admin", want: "!"},
		{rules: named, sent: "/a;v=1/b", want: "/a;v=1/b"},
		{rules: named, sent: "/;a//%61dmin/x", want: "/;a/admin/x"},
		{rules: named, sent: "/a/..;/b", want: "!"},
		{rules: named, sent: "/a/..;x=y", want: "!"},
		{rules: named, sent: "/a/.;/b", want: "!"},
		{rules: PathRules{Parameters: KeepParameters, EncodedSlash: KeepSlash}, sent: "/public/x%2F..;a%2Fb", want: "!"},
		{rules: cut, sent: "/a;v=1/b", want: "/a/b"},
		{rules: cut, sent: "/a;v=1;w=2/b;", want: "/a/b"},
		{rules: cut, sent: "/;a/admin/x", want: "/admin/x"},
		{rules: cut, sent: "/;a", want: "/"},
		{rules: cut, sent: "/a/..;x/b", want: "/b"},
		{rules: cut, sent: "/a/%2e.;x", want: "/"},
		{rules: cut, sent: "/a%3Bv=1/b", want: "/a%3Bv=1/b"},
		{rules: cut, sent: "/a;%2F..%2Fb/c", want: "/a/c"},
		{rules: cut, sent: "/a%2F;x", want: "!"},
		{rules: slashed, sent: "/a%2F;x%2Fy/b", want: "/a/b"},
		{rules: slashed, sent: "/a;x%2F..%2Fb/c", want: "/a/c"},
		// Neither fish nor fowl.
		{sent: "/%00", want: "!"},
		{sent: "/a\x00", want: "!"},
		{sent: "/%", want: "!"},
		{sent: "/%2", want: "!"},
		{sent: "/%zz", want: "!"},
		{sent: "a", want: "!"},
		{sent: "**", want: "!"},
		{sent: "http://example.com/", want: "!"},
	} {
		got, err := CanonicalPath(tt.sent, tt.rules)
		if err != nil {
			var bad *RequestError
			if got != "" || !errors.As(err, &bad) || bad.Part != "path" {
				t.Errorf("%q: %q, %v, want a *RequestError about the path", tt.sent, got, err)
			}
			got = "!"
		}
		if got != tt.want {
			t.Errorf("%+v %q: got %q (%v), want %q", tt.rules, tt.sent, got, err, tt.want)
		}
	}
}

// Whatever the path, a service that decodes it sees what the rules saw, and reading it again changes nothing.
func TestCanonicalPathMeansWhatTheServiceSees(t *testing.T) {
	pieces := []string{"/", "/", "/", "a", "b", ".", "..", "%2e", "%2F", "%5c", `\`, "//", ";", "%3b", "%", "%41", "%c3%a9", "é", " ", "%00", "~", "%7e", "*"}
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		sent := "/"
		for range r.IntN(10) {
			sent += pieces[r.IntN(len(pieces))]
		}
		for _, rules := range []PathRules{
			{},
			{EncodedSlash: KeepSlash},
			{EncodedSlash: DecodeSlash},
			{EncodedSlash: DecodeSlash, KeepDoubleSlashes: true},
			{Parameters: KeepParameters},
			{Parameters: CutParameters},
			{Parameters: CutParameters, EncodedSlash: DecodeSlash},
			{Parameters: KeepParameters, EncodedSlash: KeepSlash},
		} {
			checkCanonical(t, sent, rules)
		}
	}
}

func checkCanonical(t *testing.T, sent string, rules PathRules) {
	t.Helper()
	got, err := CanonicalPath(sent, rules)
	if err != nil {
		return
	}
	if got == "*" && sent == "*" {
		return
	}
	if again, err := CanonicalPath(got, rules); err != nil || again != got {
		t.Fatalf("%+v %q: %q, and again %q, %v", rules, sent, got, again, err)
	}
	plain, err := url.PathUnescape(got)
	if err != nil || !strings.HasPrefix(got, "/") {
		t.Fatalf("%+v %q: %q is no path: %v", rules, sent, got, err)
	}
	if u := (&url.URL{Path: plain, RawPath: got}); u.EscapedPath() != got {
		t.Fatalf("%+v %q: %q would be sent on as %q", rules, sent, got, u.EscapedPath())
	}
	if sentPlain, err := url.PathUnescape(sent); err == nil && rules == (PathRules{}) {
		// The decoded path, cleaned by the standard library's rules, is the oracle.
		want := path.Clean("/" + sentPlain)
		if strings.HasSuffix(got, "/") && want != "/" {
			want += "/"
		}
		if plain != want {
			t.Fatalf("%q: decoded %q, want %q", sent, plain, want)
		}
	}
	if rules.Parameters != KeepParameters && strings.Contains(got, ";") {
		t.Fatalf("%+v %q: %q still has parameters", rules, sent, got)
	}
	if rules.Parameters == KeepParameters { // a service that cuts them off
		plain = withoutParameters(got)
	}
	if rules.EncodedSlash == KeepSlash {
		plain = strings.ReplaceAll(plain, "%2F", "/")
		plain = strings.ReplaceAll(plain, "%5C", "/")
		plain = strings.ReplaceAll(plain, `\`, "/") // a service that takes it for one
	}
	for name := range strings.SplitSeq(plain, "/") {
		if name == "." || name == ".." {
			t.Fatalf("%+v %q: %q still has dots", rules, sent, got)
		}
	}
}

// withoutParameters returns a path as servlet containers read it.
func withoutParameters(path string) string {
	names := strings.Split(path, "/")
	for i := range names {
		names[i], _, _ = strings.Cut(names[i], ";")
	}
	return strings.Join(names, "/")
}

func TestPathOfARequest(t *testing.T) {
	id := newID(t, Config{MaxPath: 100})
	for target, want := range map[string]string{
		"/search?q=/../x":        "/search",
		"/%73earch//x/../y":      "/search/y",
		"http://example.com":     "/",
		"http://example.com/a/b": "/a/b",
	} {
		if got := get(t, id, request("192.0.2.1:1", target), "path"); got != want {
			t.Errorf("%s: path = %s, want %s", target, got, want)
		}
	}
	r := request("192.0.2.1:1", "/")
	r.Method, r.URL = http.MethodOptions, &url.URL{Path: "*"}
	if got := get(t, id, r, "path"); got != "*" {
		t.Errorf("OPTIONS *: path = %s, want *", got)
	}
	for _, target := range []string{"/a%2Fb", "/a/..;/b", "/admin;a=b/x", "/;a/admin/x", "/" + strings.Repeat("x", 100)} {
		r := request("192.0.2.1:1", target)
		if got, bad := get(t, id, r, "path"), part(t, id, r); got != "-" || bad != "path" {
			t.Errorf("%s: path = %s, malformed %q, want none and path", target, got, bad)
		}
		if got := get(t, id, r, "segment.1"); got != "-" {
			t.Errorf("%s: segment.1 = %s, want none", target, got)
		}
	}
}

func TestSegments(t *testing.T) {
	id := newID(t, Config{})
	for target, want := range map[string][3]string{
		"/":            {"-", "-", "-"},
		"/a":           {"a", "-", "-"},
		"/a/":          {"a", "-", "-"},
		"/a/b":         {"a", "b", "-"},
		"//a/./b/c/d/": {"a", "b", "c"},
		"/%61/caf%C3%A9/" + strings.Repeat("x", 1024): {"a", "caf%C3%A9", strings.Repeat("x", 1024)},
	} {
		for i, name := range []string{"segment.1", "segment.2", "segment.3"} {
			if got := get(t, id, request("192.0.2.1:1", target), name); got != want[i] {
				t.Errorf("%s: %s = %s, want %s", target, name, got, want[i])
			}
		}
	}
	if got := get(t, id, request("192.0.2.1:1", "/"+strings.Repeat("x", 1025)), "segment.1"); len(got) != 24 {
		t.Errorf("a long segment is %q, want its hash", got)
	}
}

// Go's own ServeMux keeps encoded slashes in names, so KeepSlash shows what it sees.
func TestServeMuxSeesTheCanonicalPath(t *testing.T) {
	id := newID(t, Config{Paths: PathRules{EncodedSlash: KeepSlash}})
	var served string
	mux := http.NewServeMux()
	mux.HandleFunc("/one/{name}", func(_ http.ResponseWriter, r *http.Request) { served = "one " + url.PathEscape(r.PathValue("name")) })
	mux.HandleFunc("/", func(_ http.ResponseWriter, _ *http.Request) { served = "other" })
	for target, want := range map[string]string{
		"/one/a":         "one a",
		"/one/a%2Fb":     "one a%2Fb",
		"/%6Fne/a":       "one a",
		"/one/a/b":       "other",
		"/two/../one/a":  "", // ServeMux redirects to the clean path
		"/one/caf%c3%a9": "one caf%C3%A9",
	} {
		served = ""
		r := request("192.0.2.1:1", target)
		mux.ServeHTTP(httptest.NewRecorder(), r)
		if served != want {
			t.Fatalf("%s: ServeMux served %q, want %q", target, served, want)
		}
		if name, ok := strings.CutPrefix(served, "one "); ok {
			if got := get(t, id, r, "path"); got != "/one/"+name {
				t.Errorf("%s: path = %s, want /one/%s", target, got, name)
			}
		}
	}
}
