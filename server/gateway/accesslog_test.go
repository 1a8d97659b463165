package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

func TestAccessLogContainsNoSecrets(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "hello")
	})
	var book logBook
	c := before(up.URL)
	c.Routes[0].Name = "all"
	c.AccessLog = &AccessLog{Logger: book.logger(), Every: 1}
	g := start(t, c)
	get(t, g, "/x/../path?token=secret1", "Authorization: Bearer secret2", "Cookie: session=secret3", "X-API-Key: secret4", "Host: Shop.Example:80")
	get(t, g, "/bad")
	exchangeRaw(t, g, lines("GET /%2F HTTP/1.1", "Host: a.example"))
	if err := g.Shutdown(context.Background()); err != nil { // the log is complete then
		t.Fatal(err)
	}
	if strings.Contains(book.String(), "secret") {
		t.Errorf("the log contains secrets:\n%s", &book)
	}
	all := book.each(t, "request")
	if len(all) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(all), &book)
	}
	for name, want := range map[string]any{
		"level": "INFO", "method": "GET", "host": "shop.example", "path": "/path", "status": 200.0, "bytes": 5.0, "client": "127.0.0.1",
		"protocol": "HTTP/1.1", "route": "all", "upstream": up.URL,
	} {
		if got := all[0][name]; got != want {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	if id, _ := all[0]["id"].(string); len(id) != 24 {
		t.Errorf("id %v", all[0]["id"])
	}
	if took, _ := all[0]["seconds"].(float64); took <= 0 || took > patience.Seconds() {
		t.Errorf("seconds %v", all[0]["seconds"])
	}
	if all[1]["status"] != 500.0 || all[1]["level"] != "WARN" {
		t.Errorf("second line %v, want a warning of 500", all[1])
	}
	if text, _ := all[2]["err"].(string); all[2]["status"] != 400.0 || !strings.Contains(text, "malformed") {
		t.Errorf("third line %v, want 400 and why", all[2])
	}
}

func TestAccessLogSamplesRequestsButLogsAllErrors(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var book logBook
	c := before(up.URL)
	c.AccessLog = &AccessLog{Logger: book.logger(), Every: 10, Query: true}
	g := start(t, c)
	for range 100 {
		get(t, g, "/good?x=1")
	}
	for range 20 {
		get(t, g, "/bad")
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	counts := make(map[any]int)
	for _, line := range book.each(t, "request") {
		counts[line["path"]]++
		if line["path"] == "/good" && line["query"] != "x=1" {
			t.Errorf("query %v, want x=1 as it is asked for", line["query"])
		}
	}
	if counts["/good"] != 10 || counts["/bad"] != 20 {
		t.Errorf("lines %v, want 10 of 100 good ones and all of 20 bad ones", counts)
	}
}

// A log that does not keep up drops lines and delays no request.
func TestSlowLogDelaysNoRequest(t *testing.T) {
	up := newRecorder(t)
	release := make(chan struct{})
	slow := &slowHandler{release: release, Handler: slog.DiscardHandler}
	c := before(up.URL)
	c.AccessLog = &AccessLog{Logger: slog.New(slow), Every: 1, Queue: 4}
	g := start(t, c)
	for range 50 {
		get(t, g, "/")
	}
	if s := g.Stats(); s.LogDropped < 40 || s.LogDropped > 46 {
		t.Errorf("%d lines dropped of 50, want all but those in the queue", s.LogDropped)
	}
	close(release)
}

type slowHandler struct {
	slog.Handler
	release chan struct{}
}

func (h *slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *slowHandler) Handle(context.Context, slog.Record) error { <-h.release; return nil }

func TestObserveIsCalledForEveryRequest(t *testing.T) {
	up := newRecorder(t)
	var mu sync.Mutex
	var seen []Observation
	c := before(refusing(t), up.URL)
	c.Routes[0].Name, c.Routes[0].Ejection.After = "all", -1
	c.Observe = func(o *Observation) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, *o)
	}
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/over":
				w.WriteHeader(http.StatusTooManyRequests)
			case "/drop":
				panic(http.ErrAbortHandler)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
	g := start(t, c)
	get(t, g, "/")
	get(t, g, "/")
	get(t, g, "/over")
	conn, r := dial(t, g)
	send(t, conn, lines("GET /drop HTTP/1.1", "Host: a.example"))
	if a, err := tryReceive(r, "GET"); err == nil {
		t.Errorf("dropped: got %+v", a)
	}
	await.True(t, "all are over", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) == 4 })
	retries := 0
	for i, o := range seen {
		if o.Duration <= 0 {
			t.Errorf("%d took %v", i, o.Duration)
		}
		retries += o.Retries
	}
	if retries != 1 || seen[0].Status != 200 || seen[0].Route != "all" || seen[0].Upstream != up.URL || seen[0].Sent != int64(len("served /")) {
		t.Errorf("%d retries, first %+v", retries, seen[0])
	}
	if o := seen[2]; o.Status != 429 || o.Upstream != "" || o.Err != nil || o.Aborted {
		t.Errorf("rejected: %+v", o)
	}
	if o := seen[3]; o.Status != 0 || !o.Aborted {
		t.Errorf("dropped: %+v", o)
	}
	s := g.Stats()
	if s.Requests != 4 || s.InFlight != 0 || s.Responses[2] != 2 || s.Responses[4] != 1 || s.Responses[0] != 1 || s.Aborted != 1 || s.Retries != 1 {
		t.Errorf("stats %+v", s)
	}
	if n := len(up.taken()); n != 2 {
		t.Errorf("the upstream saw %d requests, want 2: what the limiter rejects never gets there", n)
	}
}
