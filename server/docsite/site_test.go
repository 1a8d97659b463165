package docsite

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var documents = fstest.MapFS{
	"README.md": {Data: []byte("# Home\n\nSee [rules](rules.md#the-key-of-a-rule), [a guide](guide/a.md), [code](../engine/doc.go) and [Go](https://go.dev).\n")},
	"rules.md": {Data: []byte("# Rules\n\nAbout `when`.\n\n## The key of a rule!\n\n| a | b |\n|---|--:|\n| one | 2 |\n\n" +
		"## Twice\n\n```yaml\nkey: ip\n```\n\n## Twice\n\n<script>alert(1)</script>\n")},
	"made.md":         {Data: []byte("# Made\n")},
	"guide/README.md": {Data: []byte("# Guides\n")},
	"guide/a.md":      {Data: []byte("# Guide A\n\n[back](../rules.md) ![picture](../p.png)\n")},
	"p.png":           {Data: []byte("png")},
}

func options() Options {
	return Options{
		Files: documents, Source: "https://example.com/docs", Version: "v1",
		Sections: []Section{{"Start", []string{"README.md", "made.md"}}, {"All", []string{"rules.md", "guide/"}}},
	}
}

func build(t *testing.T) *Site {
	t.Helper()
	s, err := Build(options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLinksLeadToPagesOrToTheSource(t *testing.T) {
	s := build(t)
	for file, links := range map[string][]string{
		"index.html": {
			`href="rules.html#the-key-of-a-rule"`, `href="guide/a.html"`, `href="https://go.dev"`,
			`href="https://example.com/engine/doc.go"`, `href="made.html"`,
		},
		"guide/a.html": {`href="../rules.html"`, `src="../p.png"`, `href="../docs.css"`, `href="../guide/index.html"`, `aria-current="page">Guide A`},
		"rules.html":   {`id="the-key-of-a-rule"`, `id="twice"`, `id="twice-1"`, `href="#twice-1"`},
	} {
		for _, link := range links {
			if !strings.Contains(string(s.files[file]), link) {
				t.Errorf("%s: no %s in\n%s", file, link, s.files[file])
			}
		}
	}
}

// The Content-Security-Policy of the handler would refuse both.
func TestPagesHaveNoInlineScriptsOrStyles(t *testing.T) {
	page := string(build(t).files["rules.html"])
	for _, unwanted := range []string{"alert(1)", "style="} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page contains %s", unwanted)
		}
	}
}

func TestSearchHasEverySection(t *testing.T) {
	var entries []searchEntry
	if err := json.Unmarshal(build(t).files["search.json"], &entries); err != nil {
		t.Fatal(err)
	}
	for _, want := range []searchEntry{
		{File: "rules.html#rules", Page: "Rules", Heading: "Rules", Text: "About when."},
		{File: "rules.html#the-key-of-a-rule", Page: "Rules", Heading: "The key of a rule!", Text: "a b one 2"},
		{File: "rules.html#twice", Page: "Rules", Heading: "Twice", Text: "key: ip"},
	} {
		if !slices.Contains(entries, want) {
			t.Errorf("got %+v, want %+v in it", entries, want)
		}
	}
}

func TestUnnamedDocumentsAreUnderMore(t *testing.T) {
	o := options()
	o.Sections = []Section{{"Start", []string{"README.md", "made.md", "guide/"}}}
	s, err := Build(o)
	if err != nil {
		t.Fatal(err)
	}
	if home := string(s.files["index.html"]); !strings.Contains(home, "<summary>More</summary>\n<ul><li><a href=\"rules.html\">Rules</a>") {
		t.Errorf("got\n%s\nwant the rules under More", home)
	}
}

func TestNavigationNamesDocumentsOnce(t *testing.T) {
	for _, tt := range []struct {
		sections []Section
		want     string
	}{
		{[]Section{{"A", []string{"README.md", "README.md"}}}, "named twice"},
		{[]Section{{"A", []string{"gone.md"}}}, "gone.md does not exist"},
	} {
		o := options()
		o.Sections = tt.sections
		if _, err := Build(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want an error with %q", err, tt.want)
		}
	}
}

func TestHandlerServesTheSite(t *testing.T) {
	server := httptest.NewServer(Handler("/docs/", func() (*Site, error) { return Build(options()) }))
	t.Cleanup(server.Close)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, path, etag string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("If-None-Match", etag)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response, string(body)
	}
	first, body := ask("GET", "/docs/guide/", "")
	if first.StatusCode != 200 || !strings.Contains(body, "<h1 id=\"guides\">Guides</h1>") {
		t.Errorf("got %d %s, want the page of the guides", first.StatusCode, body)
	}
	for _, tt := range []struct {
		method, path, etag string
		status             int
		header, value      string
	}{
		{"GET", "/docs", "", 301, "Location", "/docs/"},
		{"GET", "/docs/guide/", first.Header.Get("ETag"), 304, "", ""},
		{"GET", "/docs/p.png", "", 200, "Content-Type", "image/png"},
		{"GET", "/docs/search.json", "", 200, "Content-Security-Policy", policy},
		{"GET", "/docs/../secret", "", 404, "", ""},
		{"POST", "/docs/", "", 405, "Allow", "GET, HEAD"},
	} {
		r, _ := ask(tt.method, tt.path, tt.etag)
		if r.StatusCode != tt.status || tt.header != "" && r.Header.Get(tt.header) != tt.value {
			t.Errorf("%s %s: got %d %q, want %d %q", tt.method, tt.path, r.StatusCode, r.Header.Get(tt.header), tt.status, tt.value)
		}
	}
}
