package demo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/demo"
)

func ask(t *testing.T, accept string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://example.com/a%20b?token=hush&plan=gold", http.NoBody)
	r.Header.Set("Accept", accept)
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	new(demo.Upstream).ServeHTTP(w, r)
	return w
}

func TestJSONDescribesTheRequest(t *testing.T) {
	w := ask(t, "*/*", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") })
	var got struct {
		Method, Host, Path string
		Query              []string
		Headers            []struct{ Name, Value string }
		Served             int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Method != "GET" || got.Host != "example.com" || got.Path != "/a%20b" || got.Served != 1 {
		t.Errorf("got %+v", got)
	}
	if want := []string{"plan", "token"}; !slices.Equal(got.Query, want) {
		t.Errorf("query: got %q, want %q", got.Query, want)
	}
	found := false
	for _, h := range got.Headers {
		found = found || h.Name == "X-Forwarded-For" && h.Value == "192.0.2.1"
	}
	if !found {
		t.Errorf("got headers %v, want X-Forwarded-For among them", got.Headers)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	for _, accept := range []string{"*/*", "text/html,*/*"} {
		w := ask(t, accept, func(r *http.Request) {
			for _, name := range []string{"Authorization", "Cookie", "X-API-Key", "Proxy-Authorization", "X-Anything", "Referer"} {
				r.Header.Set(name, "hush")
			}
		})
		if body := w.Body.String(); strings.Contains(body, "hush") {
			t.Errorf("%s: got %s, want no value that may be a secret", accept, body)
		} else if !strings.Contains(body, "Authorization") {
			t.Errorf("%s: got %s, want the names of headers", accept, body)
		}
	}
}

func TestPageEscapesScripts(t *testing.T) {
	const script = "<script>alert(1)</script>"
	w := ask(t, "text/html", func(r *http.Request) {
		r.Header.Set("User-Agent", script)
		r.Host = script
		r.URL.RawQuery = "a" + script
	})
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("got %q", got)
	}
	if body := w.Body.String(); strings.Contains(body, "<script") {
		t.Errorf("got %s", body)
	}
	if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") {
		t.Errorf("got policy %q", got)
	}
}

func TestResponseIsBounded(t *testing.T) {
	w := ask(t, "*/*", func(r *http.Request) {
		for i := range 1000 {
			r.Header.Set("X-Name-"+strings.Repeat("x", i), strings.Repeat("y", 10_000))
		}
	})
	if got := w.Body.Len(); got > 64<<10 {
		t.Errorf("got %d bytes", got)
	}
	if !strings.Contains(w.Body.String(), `"more_headers"`) {
		t.Error("it does not say that there are more")
	}
}
