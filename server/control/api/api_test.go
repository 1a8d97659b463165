package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/internal/logins"
)

// A service is a rules service with its own database.
type service struct {
	t      testing.TB
	db     control.DB
	server *api.Server
	url    string
	client *http.Client
	admin  string // a token that may do everything
}

// open starts a service, with defaults for missing fields of the Config.
func open(t testing.TB, c api.Config) *service {
	t.Helper()
	s := &service{t: t}
	if c.DB == nil {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		c.DB = db
	}
	s.db = c.DB
	if c.Logins == nil {
		c.Logins = newLogins(t, logins.DefaultLimit)
	}
	if c.AdminToken == "" && c.FirstToken == nil {
		c.FirstToken = func(token string) { s.admin = token }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	server, err := api.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.server = server
	listening := httptest.NewServer(server)
	s.url, s.client = listening.URL, listening.Client()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		listening.Close()
	})
	if c.AdminToken != "" {
		s.admin = c.AdminToken
	}
	return s
}

// An answer is the response to a call.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// call makes a call as the admin. Headers are name, value, …
func (s *service) call(method, path, body string, headers ...string) answer {
	s.t.Helper()
	return s.as(s.admin, method, path, body, headers...)
}

// as makes a call with a token.
func (s *service) as(token, method, path, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	a := answer{s.t, method + " " + path, got.StatusCode, got.Header, string(text)}
	described().check(a, method, path) // in every test
	return a
}

// wants fails unless the response has a status, and its body contains all texts.
func (a answer) wants(status int, texts ...string) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: got %d, want %d\n%s", a.what, a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("%s: got %s\nwant it to have %s", a.what, a.body, text)
		}
	}
	return a
}

// into reads the body.
func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%s: %v\n%s", a.what, err, a.body)
	}
}

// etag returns the revision in the response's ETag.
func (a answer) etag() int64 {
	a.t.Helper()
	n, err := strconv.ParseInt(strings.Trim(a.header.Get("ETag"), `"`), 10, 64)
	if err != nil {
		a.t.Fatalf("%s: ETag %q: want a revision", a.what, a.header.Get("ETag"))
	}
	return n
}

// token creates a token and returns its secret.
func (s *service) token(id string, role token.Role, namespaces ...string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"id": id, "role": role, "namespaces": namespaces})
	if err != nil {
		s.t.Fatal(err)
	}
	var made struct{ Secret string }
	s.call("POST", "/v1/tokens", string(body)).wants(http.StatusCreated).into(&made)
	return made.Secret
}

const searchRule = `{"id":"search","when":{"path":"/search/**"},"key":["user"],"limits":["10/s burst 20"]}`
