// Package demo is a service to try a gateway on: it answers every request with what it has received, as a page or as JSON.
package demo

import (
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	_ "embed"
)

// Upstream is the service. The zero value is ready.
type Upstream struct{ served atomic.Int64 }

// Served returns how many requests it has answered.
func (u *Upstream) Served() int64 { return u.served.Load() }

// A seen is what arrived.
type seen struct {
	Message string `json:"message"`
	Served  int64  `json:"served"`
	Method  string `json:"method"`
	Host    string `json:"host"`
	Path    string `json:"path"`
	// Query has the names of the parameters alone: what they say may be secret.
	Query   []string `json:"query,omitempty"`
	Headers []header `json:"headers"`
	More    int      `json:"more_headers,omitempty"`
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	maxHeaders = 64
	maxShown   = 256
)

// shown are the headers whose values are shown. Any other may be a secret: its length is.
var shown = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Connection", "Content-Length", "Content-Type", "Expect", "Forwarded", "Host",
	"Te", "Traceparent", "Upgrade", "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id",
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// ServeHTTP answers with what it has received. Nothing that may be a secret is in it: see shown.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := seen{
		Message: "You have reached the demonstration service behind Headgate.",
		Served:  u.served.Add(1),
		Method:  cut(r.Method), Host: cut(r.Host), Path: cut(r.URL.EscapedPath()),
	}
	for name := range r.URL.Query() {
		s.Query = append(s.Query, cut(name))
	}
	slices.Sort(s.Query)
	s.Query = s.Query[:min(len(s.Query), maxHeaders)]
	for name, values := range r.Header {
		s.Headers = append(s.Headers, header{cut(name), value(name, strings.Join(values, ", "))})
	}
	slices.SortFunc(s.Headers, func(a, b header) int { return strings.Compare(a.Name, b.Name) })
	if n := len(s.Headers); n > maxHeaders {
		s.Headers, s.More = s.Headers[:maxHeaders], n-maxHeaders
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_ = page.Execute(w, s) // an error is one of writing: the client is gone
		return
	}
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n')) // as above
}

func value(name, text string) string {
	if _, ok := slices.BinarySearch(shown, http.CanonicalHeaderKey(name)); ok {
		return cut(text)
	}
	return "(" + strconv.Itoa(len(text)) + " bytes, not shown)"
}

func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}
