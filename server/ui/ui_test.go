package ui

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// others stands for the rest of the admin listener.
var others = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func console(t *testing.T) http.Handler {
	t.Helper()
	h, err := Handler(others)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask sends a request with headers, name and value by turns.
func ask(h http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// asset returns the path of the page's script.
func asset(t *testing.T, h http.Handler) string {
	t.Helper()
	page := text(t, ask(h, http.MethodGet, "/"))
	found := regexp.MustCompile(`src="(/assets/[^"]+\.js)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no script in %s", page)
	}
	return found[1]
}

func TestThePageIsAtEachOfItsAddressesAndNowhereElse(t *testing.T) {
	h := console(t)
	for _, path := range []string{"/", "/rules", "/rules/search-per-user", "/rules/a.b", "/explain", "/clients", "/overrides", "/audit", "/tokens", "/fleet", "/stores", "/alerts", "/webhooks", "/signin", "/?x=1", "/rules?new"} {
		got := ask(h, http.MethodGet, path)
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(text(t, got), `id="console"`) {
			t.Errorf("%s: got %s %s, want the page", path, got.Status, got.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{
		"/v1/rules", "/v1/", "/v1", "/metrics", "/healthz", "/readyz", "/openapi.json", "/index.html", "/assets/", "/assets/none.js", "/rules/", "/rules/a/b",
		"/favicon.ico", "/dist/index.html", "/assets/../index.html", "/signin/x",
	} {
		if got := ask(h, http.MethodGet, path); got.StatusCode != http.StatusTeapot {
			t.Errorf("%s: got %s, want that others answer", path, got.Status)
		}
	}
}

func TestTheAddressesAreThoseThatTheConsoleKnows(t *testing.T) {
	source, err := os.ReadFile("src/route.ts")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, found := range regexp.MustCompile(`path: "(/\w*)"|"/signin"`).FindAllStringSubmatch(string(source), -1) {
		if found[1] == "" {
			found[1] = "/signin" // it is in no menu
		}
		want = append(want, found[1])
	}
	var got []string
	for path := range pages {
		got = append(got, path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %q, want those of src/route.ts, %q", got, want)
	}
}

func TestEveryAnswerForbidsWhatTheConsoleDoesNotDo(t *testing.T) {
	h := console(t)
	for _, path := range []string{"/", asset(t, h)} {
		got := ask(h, http.MethodGet, path)
		csp := got.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy is %q, want %s in it", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
			if got := got.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestWhatIsNamedByItsHashIsKeptAndThePageIsAskedForAnew(t *testing.T) {
	h := console(t)
	for path, want := range map[string]string{"/": "no-cache", asset(t, h): "public, max-age=31536000, immutable"} {
		first := ask(h, http.MethodGet, path)
		if got := first.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		tag := first.Header.Get("ETag")
		for _, known := range []string{tag, `"other", ` + tag, "W/" + tag, "*"} {
			if got := ask(h, http.MethodGet, path, "If-None-Match", known); got.StatusCode != http.StatusNotModified || text(t, got) != "" {
				t.Errorf("%s with If-None-Match %s: got %s, want 304", path, known, got.Status)
			}
		}
		if got := ask(h, http.MethodGet, path, "If-None-Match", `"other"`); got.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s for another tag, want 200", path, got.Status)
		}
		if packed := ask(h, http.MethodGet, path, "Accept-Encoding", "gzip").Header.Get("ETag"); packed == tag {
			t.Errorf("%s: the tag %s is that of two forms", path, tag)
		}
	}
}

func TestWhoTakesGzipGetsTheSameInFewerBytes(t *testing.T) {
	h := console(t)
	path := asset(t, h)
	want := text(t, ask(h, http.MethodGet, path))
	for accept, packed := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "GZIP": true, "*": true, "*;q=0, gzip": true,
		"": false, "br": false, "gzip;q=0": false, "identity": false, "gzip;q=x": false, "*, gzip;q=0": false, "*;q=0": false,
	} {
		got := ask(h, http.MethodGet, path, "Accept-Encoding", accept)
		if is := got.Header.Get("Content-Encoding") == "gzip"; is != packed {
			t.Errorf("Accept-Encoding %q: gzip is %v, want %v", accept, is, packed)
			continue
		}
		if got.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary is %q", accept, got.Header.Get("Vary"))
		}
		body := io.Reader(got.Body)
		if packed {
			z, err := gzip.NewReader(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if data, err := io.ReadAll(body); err != nil || string(data) != want {
			t.Errorf("Accept-Encoding %q: got %d bytes and %v, want the %d of the file", accept, len(data), err, len(want))
		}
	}
}

func TestHEADIsGETWithoutABodyAndNothingElseIsDone(t *testing.T) {
	h := console(t)
	got := ask(h, http.MethodHead, "/")
	if body := text(t, got); got.StatusCode != http.StatusOK || body != "" || got.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD: got %s, %d bytes, Content-Length %s", got.Status, len(body), got.Header.Get("Content-Length"))
	}
	if got := ask(h, http.MethodPost, "/rules"); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %s, Allow %q", got.Status, got.Header.Get("Allow"))
	}
}

// The whole of it, as it is sent: what a slow line has to carry before anything is seen.
func TestTheConsoleIsSmall(t *testing.T) {
	const most = 150_000
	files, err := read(dist)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, f := range files {
		sum += min(len(f.gzip), len(f.plain))
	}
	if sum > most {
		t.Errorf("got %d bytes, want at most %d", sum, most)
	}
	t.Logf("%d files, %d bytes compressed", len(files), sum)
}

func TestAConsoleThatWasNotBuiltIsAnError(t *testing.T) {
	if _, err := read(fstest.MapFS{"dist/assets/x.js": {Data: []byte("x")}}); err == nil || !strings.Contains(err.Error(), "make ui") {
		t.Errorf("got %v, want an error that says how to build it", err)
	}
}

// Which registry packages come from is each builder's own affair.
func TestPackagesAreNotTiedToARegistry(t *testing.T) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error("package-lock.json says where packages come from; .npmrc has what prevents it")
	}
}
