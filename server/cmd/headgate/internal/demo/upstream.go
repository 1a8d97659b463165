// Package demo has a service and traffic for trying a gateway. The response of the service describes the request.
package demo

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	_ "embed"
)

// Upstream is the service. The zero value is ready to use.
type Upstream struct{ served atomic.Int64 }

// Served returns the number of requests that the service has received.
func (u *Upstream) Served() int64 { return u.served.Load() }

// A description describes a request.
type description struct {
	Message string `json:"message"`
	Served  int64  `json:"served"`
	Method  string `json:"method"`
	Host    string `json:"host"`
	Path    string `json:"path"`
	// Query has only the names of the parameters, because their values may be secret.
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
	maxText    = 256
)

// shownHeaders are the headers whose values are shown, sorted by name. Of other headers, only the length of the value
// is shown, because the value may be secret.
var shownHeaders = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Connection", "Content-Length", "Content-Type", "Expect", "Forwarded",
	"Host",
	"Te", "Traceparent", "Upgrade", "User-Agent", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Request-Id",
}

//go:embed page.html
var pageText string

// writePage writes the description as a page.
func (s *description) writePage(w io.Writer) error {
	var rows strings.Builder
	add := func(name, value string) {
		fmt.Fprintf(&rows, "    <tr><td>%s</td><td>%s</td></tr>\n", html.EscapeString(name), html.EscapeString(value))
	}
	add("Host", s.Host)
	for _, name := range s.Query {
		add("query", name+" (not shown)")
	}
	for _, h := range s.Headers {
		add(h.Name, h.Value)
	}
	if s.More > 0 {
		add("and", strconv.Itoa(s.More)+" more")
	}
	_, err := strings.NewReplacer(
		"{{message}}", html.EscapeString(s.Message),
		"{{method}}", html.EscapeString(s.Method),
		"{{path}}", html.EscapeString(s.Path),
		"{{rows}}", rows.String(),
		"{{served}}", strconv.FormatInt(s.Served, 10),
	).WriteString(w, pageText)
	return err
}

// ServeHTTP responds with a description of the request, without values that may be secret.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := description{
		Message: "You have reached the demo service behind Headgate.",
		Served:  u.served.Add(1),
		Method:  truncate(r.Method), Host: truncate(r.Host), Path: truncate(r.URL.EscapedPath()),
	}
	for name := range r.URL.Query() {
		s.Query = append(s.Query, truncate(name))
	}
	slices.Sort(s.Query)
	s.Query = s.Query[:min(len(s.Query), maxHeaders)]
	for name, values := range r.Header {
		s.Headers = append(s.Headers, header{truncate(name), shownValue(name, strings.Join(values, ", "))})
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
		_ = s.writePage(w) // fails only if the client has disconnected
		return
	}
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}

func shownValue(name, text string) string {
	if _, ok := slices.BinarySearch(shownHeaders, http.CanonicalHeaderKey(name)); ok {
		return truncate(text)
	}
	return "(" + strconv.Itoa(len(text)) + " bytes, not shown)"
}

func truncate(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
