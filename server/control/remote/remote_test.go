package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// patience bounds waits, on a machine that is busy with other work.
const patience = time.Minute

// service returns a client of a handler.
func service(t *testing.T, handler http.HandlerFunc) *remote.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	c, err := remote.New(remote.Config{URL: s.URL + "/", Token: "hg_test_secret", Namespace: "shop", Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		s.CloseClientConnections()
		s.Close()
	})
	return c
}

func answer(w http.ResponseWriter, code int, media, body string) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func TestInvalidURLsAreRefused(t *testing.T) {
	for _, url := range []string{"", "rules.example.com", "ftp://host", "http://", "http://user:hush@host", "http://host?x=1", "http://host#x", "://"} {
		if _, err := remote.New(remote.Config{URL: url}); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v", url, err)
		}
	}
}

func TestCallsHaveTokenNamespaceAndConditions(t *testing.T) {
	t.Parallel()
	type seen struct{ method, path, namespace, token, ifMatch, ifNoneMatch, media, body string }
	var last seen
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = seen{
			r.Method, r.URL.EscapedPath(), r.URL.Query().Get("namespace"), r.Header.Get("Authorization"), r.Header.Get("If-Match"),
			r.Header.Get("If-None-Match"), r.Header.Get("Content-Type"), string(body),
		}
		w.Header().Set("ETag", `"7"`)
		answer(w, http.StatusOK, "application/json", `{"rule":{"id":"a/b"},"revision":7,"by":"alice","created":"2030-01-01T00:00:00Z"}`)
	})
	ctx := t.Context()
	const token = "Bearer hg_test_secret"
	for name, tt := range map[string]struct {
		do   func() error
		want seen
	}{
		"get": {func() error {
			o, err := c.Get(ctx, remote.Rules, "a/b")
			if err == nil && (string(o.Body()) != `{"id":"a/b"}` || o.Revision != 7 || o.By != "alice" || o.Created.Year() != 2030) {
				err = fmt.Errorf("got %+v", o)
			}
			return err
		}, seen{"GET", "/v1/rules/a%2Fb", "shop", token, "", "", "", ""}},
		"put": {func() error {
			revision, err := c.Put(ctx, remote.Clients, "x", []byte("{}"), 3)
			if err == nil && revision != 7 {
				err = fmt.Errorf("got revision %d", revision)
			}
			return err
		}, seen{"PUT", "/v1/clients/x", "shop", token, `"3"`, "", "application/json", "{}"}},
		"put what must not be there": {func() error {
			_, err := c.Put(ctx, remote.Clients, "x", []byte("{}"), control.Absent)
			return err
		}, seen{"PUT", "/v1/clients/x", "shop", token, "", "*", "application/json", "{}"}},
		"put whatever is there": {func() error {
			_, err := c.Put(ctx, remote.Overrides, "x", []byte("{}"), control.AnyRevision)
			return err
		}, seen{"PUT", "/v1/overrides/x", "shop", token, "", "", "application/json", "{}"}},
		"delete": {
			func() error { return c.Delete(ctx, remote.Rules, "x", 3) },
			seen{"DELETE", "/v1/rules/x", "shop", token, `"3"`, "", "", ""},
		},
		"apply": {func() error {
			_, err := c.Apply(ctx, remote.Document{Body: []byte("rules: []"), Media: "application/yaml"}, true, true, 5)
			return err
		}, seen{"POST", "/v1/rules:apply", "shop", token, `"5"`, "", "application/yaml", "rules: []"}},
		"do": {func() error {
			return c.Do(ctx, http.MethodPost, "/v1/explain", nil, map[string]string{"a": "b"}, nil)
		}, seen{"POST", "/v1/explain", "shop", token, "", "", "application/json", `{"a":"b"}`}},
	} {
		if err := tt.do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if last != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, last, tt.want)
		}
	}
}

func TestListsComeInPages(t *testing.T) {
	t.Parallel()
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("q") != "search" || q.Get("limit") != "2" {
			t.Errorf("got %v", q)
		}
		if q.Get("cursor") == "" {
			answer(w, http.StatusOK, "application/json", `{"rules":[{"rule":{"id":"a"},"revision":1},{"rule":{"id":"b"},"revision":2}],"next":"b","total":3,"revision":9}`)
		} else {
			answer(w, http.StatusOK, "application/json", `{"rules":[{"rule":{"id":"c"},"revision":3}],"total":3,"revision":9}`)
		}
	})
	q := remote.Query{Search: "search", Limit: 2}
	var got []string
	for {
		page, err := c.List(t.Context(), remote.Rules, q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Total != 3 || page.Revision != 9 {
			t.Errorf("got %+v", page)
		}
		for _, o := range page.Resources() {
			got = append(got, fmt.Sprint(string(o.Body()), o.Revision))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if want := `[{"id":"a"}1 {"id":"b"}2 {"id":"c"}3]`; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestRefusalsListPositions(t *testing.T) {
	t.Parallel()
	var media, body string
	c := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		answer(w, http.StatusUnprocessableEntity, media, body)
	})
	for _, tt := range []struct{ media, body, want string }{
		{
			"application/problem+json", `{"title":"Wrong","detail":"the rule is wrong","errors":[{"path":"limits[0]","value":"\"x\"","want":"10/s","line":3},{"path":"id"}]}`,
			"the rules service says 422: the rule is wrong\n  line 3: limits[0]: \"x\": want 10/s\n  id",
		},
		{"application/problem+json", `{"title":"Wrong"}`, "the rules service says 422: Wrong"},
		{"text/html", `<html>`, "the rules service says 422: Unprocessable Entity"},
		{"application/problem+json", `{`, "the rules service says 422: Unprocessable Entity"},
	} {
		media, body = tt.media, tt.body
		_, err := c.Get(t.Context(), remote.Rules, "x")
		var refused *remote.Error
		if !errors.As(err, &refused) || err.Error() != tt.want || refused.Status != 422 || refused.RetryAfter != 3*time.Second {
			t.Errorf("%s: got %v, want %s", tt.body, err, tt.want)
		}
	}
}

// A token is sent only to the configured service, not to a server that it redirects to.
func TestTokensAreNotSentToRedirects(t *testing.T) {
	t.Parallel()
	var others atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.Get(t.Context(), remote.Rules, "x"); err == nil || !strings.Contains(err.Error(), "a redirect") || others.Load() != 0 {
		t.Errorf("got %v, %d calls of another", err, others.Load())
	}
}

func TestTokenCanBeReplaced(t *testing.T) {
	t.Parallel()
	var shown atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.Store(r.Header.Get("Authorization"))
		answer(w, http.StatusOK, "application/json", "{}")
	}))
	defer s.Close()
	token := "one"
	c, err := remote.New(remote.Config{URL: s.URL, TokenFrom: func() (string, error) {
		if token == "" {
			return "", errors.New("no token")
		}
		return token, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, token = range []string{"one", "two"} {
		if _, err := c.Nodes(t.Context()); err != nil || shown.Load() != "Bearer "+token {
			t.Errorf("got %v, %v, want %s", shown.Load(), err, token)
		}
	}
	token = ""
	if _, err := c.Nodes(t.Context()); err == nil || err.Error() != "no token" {
		t.Errorf("got %v", err)
	}
}

func TestCallEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-held }))
	defer s.Close()
	defer close(held)
	c, err := remote.New(remote.Config{URL: s.URL, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Nodes(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		var n control.Node
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || r.Method != http.MethodPut || r.URL.Path != "/v1/nodes/n1" || n.Revision != 7 {
			t.Errorf("got %s %s %+v, %v", r.Method, r.URL, n, err)
		}
		answer(w, http.StatusOK, "application/json", `{"revision":9,"interval_ms":2000}`)
	})
	beat, err := c.Heartbeat(t.Context(), control.Node{ID: "n1", Revision: 7})
	if err != nil || beat != (remote.HeartbeatResponse{Revision: 9, IntervalMS: 2000}) {
		t.Errorf("got %+v, %v", beat, err)
	}
}

// A what-if takes longer than other calls.
func TestWhatIfOutlastsTheTimeoutOfCalls(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(4 * timeout):
		case <-r.Context().Done():
		}
		answer(w, http.StatusOK, "application/json", `{"window":"1h"}`)
	}))
	defer s.Close()
	c, err := remote.New(remote.Config{URL: s.URL, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var response struct{ Window string }
	if err := c.WhatIf(t.Context(), map[string]string{"rule": "a"}, &response); err != nil || response.Window != "1h" {
		t.Errorf("got %+v, %v, want the window", response, err)
	}
}
