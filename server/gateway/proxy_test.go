package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestRequestsAndResponsesPassUnchanged(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	for _, tt := range []struct {
		method, target, body string
		header               http.Header
	}{
		{method: "GET", target: "/"},
		{method: "GET", target: "/a/b?x=1&y=%20&z"},
		{method: "GET", target: "/?"},
		{method: "HEAD", target: "/head"},
		{method: "DELETE", target: "/thing/7"},
		{method: "POST", target: "/form", body: "a=b"},
		{method: "PUT", target: "/big", body: strings.Repeat("0123456789", 100_000)},
		{method: "PATCH", target: "/p", body: "{}", header: http.Header{"Content-Type": {"application/json"}, "X-Custom": {"1", "2"}}},
		{method: "OPTIONS", target: "/o"},
		{method: "PROPFIND", target: "/dav", body: "<x/>"},
	} {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, urlOf(g)+tt.target, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = tt.header.Clone()
			if r.Header == nil {
				r.Header = http.Header{}
			}
			a := do(t, http.DefaultClient, r)
			if a.status != 200 || tt.method != "HEAD" && a.body != "served "+tt.target {
				t.Fatalf("response %d %q, want that of the upstream", a.status, a.body)
			}
			got := up.one(t)
			if got.method != tt.method || got.target != tt.target || got.body != tt.body || got.host != addrOf(g) {
				t.Errorf("upstream saw %s %s for %s with %d bytes, want %s %s for %s with %d",
					got.method, got.target, got.host, len(got.body), tt.method, tt.target, addrOf(g), len(tt.body))
			}
			if got.length != int64(len(tt.body)) {
				t.Errorf("upstream saw Content-Length %d, want %d", got.length, len(tt.body))
			}
			for name, want := range tt.header {
				if strings.Join(got.header[name], "|") != strings.Join(want, "|") {
					t.Errorf("upstream saw %s %q, want %q", name, got.header[name], want)
				}
			}
		})
	}
}

func TestResponseKeepsStatusHeadersAndTrailers(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("Content-Type", "")
		h["Content-Type"] = nil
		h.Set("Trailer", "X-Sum")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "<html>short")
		h.Set("X-Sum", "42")
	})
	g := start(t, before(up.URL))
	a := get(t, g, "/")
	if a.status != http.StatusTeapot || a.body != "<html>short" {
		t.Errorf("got %d %q, want 418 and the body", a.status, a.body)
	}
	if got := strings.Join(a.header["Set-Cookie"], "|"); got != "a=1|b=2" {
		t.Errorf("Set-Cookie %q, want both", got)
	}
	if got, ok := a.header["Content-Type"]; ok {
		t.Errorf("Content-Type %q, want none, as the upstream sent none", got)
	}
	if a.header.Get("X-Hop") != "" || a.header.Get("Keep-Alive") != "" {
		t.Errorf("headers for one connection got through: %v", a.header)
	}
	if got := a.trailer.Get("X-Sum"); got != "42" {
		t.Errorf("trailer X-Sum %q, want 42", got)
	}
}

func TestMissingRouteGets404(t *testing.T) {
	up := newRecorder(t)
	g := start(t, Config{Routes: []Route{{Host: "a.example", Upstreams: []Upstream{{URL: up.URL}}}}})
	wantProblem(t, get(t, g, "/x", "Host: b.example"), http.StatusNotFound)
	if got := get(t, g, "/x", "Host: a.example"); got.status != 200 {
		t.Errorf("a.example: %d, want 200", got.status)
	}
	up.one(t)
}
