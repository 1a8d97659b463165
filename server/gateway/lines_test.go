package gateway

import (
	"io"
	"net/http"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

// stillLimit returns a limiter with its own counters, and a clock that stands still.
func stillLimit(t testing.TB, id *identity.Identifier, text string) func(http.Handler) http.Handler {
	t.Helper()
	at := time.Unix(1_800_000_000, 0)
	now := func() time.Time { return at }
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := httplimit.New(httplimit.Config{Engine: e, Identifier: id, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

const rulesOfAllKinds = `
rules:
  - { id: each, when: { path: /limited/** }, key: [api_key], limits: [ 5/h, 100/d sliding-window ] }
  - { id: blocked, when: { path: /blocked }, block: true }
  - { id: plan, when: { header.x-plan: gold }, key: [ip], limits: [ 3/h ] }
  - { id: tokens, when: { path: /tokens }, key: [api_key], limits: [ 100/h ], cost: { response_header: X-Tokens, estimate: 10 } }
`

var ids = regexp.MustCompile(`[0-9a-z]{24}`)

// With package downstream, headers of the limiter and the upstream are set as lines, and clients see no difference.
func TestResponsesMatchNetHTTPFront(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-RateLimit-Limit", "999")
		h.Set("RateLimit", `"upstream";r=7`)
		h.Set("X-Request-ID", "the upstream's")
		h.Set("Via", "1.1 upstream")
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("X-Tokens", "40")
		h.Set("Date", "Sun, 15 Nov 2026 08:00:00 GMT")
		switch r.URL.Query().Get("as") {
		case "chunks":
			_, _ = io.WriteString(w, "some ")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "text")
			h.Set(http.TrailerPrefix+"X-Sum", "1")
		case "empty":
			w.WriteHeader(http.StatusNoContent)
		case "same":
			h.Set("Etag", `"1"`)
			w.WriteHeader(http.StatusNotModified)
		case "hints":
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "text")
		case "untyped":
			h["Content-Type"] = nil
			_, _ = io.WriteString(w, "text")
		case "encoded":
			h.Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "text")
		case "broken":
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, "text of "+r.Header.Get("X-Plan"))
		}
	})
	var fronts [2]*Gateway
	for i := range fronts {
		c := before(up.URL)
		c.Identity = identify(t, identity.Config{})
		c.Limit = stillLimit(t, c.Identity, rulesOfAllKinds)
		c.Via, c.NetHTTP = "gate", i == 1
		fronts[i] = start(t, c)
	}
	for _, path := range []string{
		"/limited/a", "/limited/a?as=chunks", "/limited/a?as=empty", "/limited/a?as=same", "/limited/a?as=hints", "/limited/a", "/limited/a",
		"/free", "/free?as=chunks", "/free?as=untyped", "/free?as=encoded", "/free?as=same", "/free?as=broken", "/blocked",
		"/tokens", "/tokens", "/tokens", "/tokens", "/%zz", "/limited/..%2f",
	} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, more := range []string{"X-A: b", "X-Plan: gold", "Connection: X-Plan"} {
				text := lines(method+" "+path+" HTTP/1.1", "Host: a.example", "X-API-Key: "+method, more)
				var got [2]clientResponse
				for i, g := range fronts {
					conn, r := dial(t, g)
					send(t, conn, text)
					for got[i].status < 200 {
						got[i] = receive(t, r, method)
					}
					_ = conn.Close()
					if id := got[i].header["X-Request-Id"]; len(id) == 1 && ids.MatchString(id[0]) {
						got[i].header["X-Request-Id"] = []string{"an id"}
						got[i].body = ids.ReplaceAllString(got[i].body, "an id")
					}
					if got[i].header.Get("Date") != "" {
						got[i].header.Set("Date", "a date") // of responses of our own
					}
				}
				if !reflect.DeepEqual(got[0], got[1]) {
					t.Errorf("%s %s, %s:\n got %+v\nwant %+v", method, path, more, got[0], got[1])
				}
			}
		}
	}
}

func TestRejectionsHaveLimitHeadersInLines(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Identity = identify(t, identity.Config{})
	c.Limit = stillLimit(t, c.Identity, `rules: [ { id: each, key: [api_key], limits: [ 1/h ] } ]`)
	var counted Observation
	c.Observe = func(o *Observation) { counted = *o }
	g := start(t, c)
	conn, r := dial(t, g)
	for i, want := range []int{200, 429, 429} {
		send(t, conn, lines("POST /x HTTP/1.1", "Host: a.example", "X-API-Key: k", "Content-Length: 4")+"body")
		a := receive(t, r, "POST")
		if a.status != want {
			t.Fatalf("request %d: status %d, want %d", i, a.status, want)
		}
		if want != 429 {
			continue
		}
		h := a.header
		if h.Get("Retry-After") != "3600" || h.Get("Content-Type") != problemType || h.Get("Cache-Control") != "no-store" ||
			h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-Request-ID") == "" || len(h["Content-Length"]) != 1 {
			t.Errorf("header %v", h)
		}
		await.True(t, "the request is over", func() bool { return g.Stats().InFlight == 0 })
		if counted.Status != 429 || counted.Sent != int64(len(a.body)) || counted.Upstream != "" {
			t.Errorf("observed %+v, want 429 and %d bytes", counted, len(a.body))
		}
	}
	if seen := up.taken(); len(seen) != 1 {
		t.Errorf("the upstream saw %d requests, want 1", len(seen))
	}
}
