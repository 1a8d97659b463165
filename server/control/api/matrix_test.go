package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/internal/logins"
)

// statusOf makes a call and returns the status without reading the body: that of a watch does not end.
func (s *service) statusOf(token, method, path string) int {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	_ = got.Body.Close()
	return got.StatusCode
}

// Every combination of role, endpoint and namespace. Other reasons to refuse a call (an empty body, a missing
// object) are checked after the permission, and do not matter here.
func TestPermissionsOfEveryRoleOnEveryRoute(t *testing.T) {
	s := open(t, api.Config{})
	scopes := map[string][]string{"its own": {"shop"}, "another": {"blog"}, "several": {"blog", "shop"}, "all": {"*"}}
	tokens := map[string]string{}
	for _, role := range token.Roles {
		for scope, namespaces := range scopes {
			tokens[string(role)+" of "+scope] = s.token(strings.ReplaceAll(string(role)+"-"+scope, " ", "-"), role, namespaces...)
		}
	}
	cells := 0
	for _, route := range api.Routes() {
		path := strings.NewReplacer("{id}", "nobody", "{n}", "999999").Replace(route.Path)
		if route.OneNamespace() {
			path += "?namespace=shop"
		}
		for _, role := range token.Roles {
			for scope, namespaces := range scopes {
				cells++
				allowed := len(route.Roles) == 0 || slices.Contains(route.Roles, role)
				if route.OneNamespace() && !slices.Contains(namespaces, "shop") && !slices.Contains(namespaces, "*") {
					allowed = false
				}
				if route.AllNamespaces() && !slices.Contains(namespaces, "*") {
					allowed = false
				}
				got := s.statusOf(tokens[string(role)+" of "+scope], route.Method, path)
				if got == http.StatusUnauthorized || (got == http.StatusForbidden) == allowed {
					t.Errorf("%s of %s: %s %s: got %d, want allowed to be %v", role, scope, route.Method, path, got, allowed)
				}
			}
		}
		cells++
		if got, open := s.statusOf("", route.Method, path), len(route.Roles) == 0; (got == http.StatusUnauthorized) == open {
			t.Errorf("nobody: %s %s: got %d, want open to be %v", route.Method, path, got, open)
		}
	}
	if least := len(api.Routes()) * (len(token.Roles)*len(scopes) + 1); cells != least || cells < 600 {
		t.Errorf("got %d cells, want all %d", cells, least)
	}
}

func TestReadOnlyServiceRefusesChanges(t *testing.T) {
	s := open(t, api.Config{ReadOnly: "they are those of /etc/headgate/rules.yaml", NoOverrides: "there is no database"})
	content := 0
	for _, route := range api.Routes() {
		if !route.Content {
			continue
		}
		content++
		path := strings.NewReplacer("{id}", "nobody", "{n}", "1").Replace(route.Path)
		s.call(route.Method, path, "{}").wants(http.StatusForbidden, "they are those of /etc/headgate/rules.yaml")
	}
	file := "rules: [{ id: b, limits: 1/s }]"
	yaml := []string{"Content-Type", "application/yaml"}
	s.call("POST", "/v1/rules:apply?dry_run", file, yaml...).wants(http.StatusOK, `"dry_run":true`, `"action":"create"`)
	s.call("POST", "/v1/rules:apply?dry_run=false", file, yaml...).wants(http.StatusForbidden, "rules.yaml.")
	s.call("POST", "/v1/revisions/1:rollback?dry_run", "").wants(http.StatusOK, `"dry_run":true`)
	s.call("POST", "/v1/clients:import?dry_run", "").wants(http.StatusBadRequest)
	s.as(s.token("looker", token.Viewer, "*"), "POST", "/v1/rules:apply?dry_run", file, yaml...).wants(http.StatusForbidden, "viewer")
	s.call("GET", "/v1/rules", "").wants(http.StatusOK, `"total":0`)
	s.call("GET", "/v1/whoami", "").wants(http.StatusOK, `"read_only":"they are those of /etc/headgate/rules.yaml"`, `"no_overrides":"there is no database"`)
	if content < 12 {
		t.Errorf("got %d routes that change rules or clients, want at least 12", content)
	}
	s.call("POST", "/v1/overrides", "{}").wants(http.StatusForbidden, "there is no database")
	s.call("PUT", "/v1/overrides/x", "{}").wants(http.StatusForbidden)
	s.call("POST", "/v1/keys:override", "{}").wants(http.StatusForbidden)
	s.call("GET", "/v1/rules", "").wants(http.StatusOK)
	if _, err := s.server.Apply(t.Context(), "default", "file", "rules.yaml", []byte("rules: [{ id: a, limits: 1/s }]")); err != nil {
		t.Errorf("Apply of the file itself: %v", err)
	}
	s.call("GET", "/v1/rules", "").wants(http.StatusOK, `"by":"file"`, `"total":1`)
	if _, err := s.server.Apply(t.Context(), "default", "file", "rules.yaml", []byte("rules: [{ id: a, limits: x }]")); err == nil {
		t.Error("Apply of a file that is wrong: got no error")
	}
}

func TestAdminSeesOnlyTokensOfOwnNamespaces(t *testing.T) {
	s := open(t, api.Config{})
	shop := s.token("shop-admin", token.Admin, "shop", "blog")
	s.token("shared", token.Viewer, "shop", "blog2")
	for _, tt := range []struct {
		namespaces string
		want       int
	}{{`["shop"]`, 201}, {`["shop","blog"]`, 201}, {`["blog2"]`, 403}, {`["shop","blog2"]`, 403}, {`["*"]`, 403}, {`[]`, 422}, {`["a/b"]`, 422}} {
		got := s.as(shop, "POST", "/v1/tokens", `{"role":"admin","namespaces":`+tt.namespaces+`}`)
		if got.status != tt.want {
			t.Errorf("namespaces %s: got %d, want %d: %s", tt.namespaces, got.status, tt.want, got.body)
		}
	}
	list := s.as(shop, "GET", "/v1/tokens", "").wants(200, "shop-admin")
	for _, hidden := range []string{"first-admin\"", `"id":"shared"`} {
		if strings.Contains(list.body, `"id":"first-admin"`) || strings.Contains(list.body, `"id":"shared"`) {
			t.Errorf("the list shows %s: %s", hidden, list.body)
		}
	}
	for _, id := range []string{"shared", "first-admin", "nobody", "a%2Fb"} {
		s.as(shop, "GET", "/v1/tokens/"+id, "").wants(404)
		s.as(shop, "DELETE", "/v1/tokens/"+id, "").wants(404)
	}
}

func TestTokenIsValidUntilRevokedOrExpired(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	var made struct {
		Token  struct{ ID string }
		Secret string
	}
	s.call("POST", "/v1/tokens", `{"role":"viewer","namespaces":["*"],"for":"1h"}`).wants(201).into(&made)
	if !strings.HasPrefix(made.Secret, "hg_"+made.Token.ID+"_") || len(made.Secret) < 70 {
		t.Errorf("secret: got %q, want hg_ID_ and 256 bits", made.Secret)
	}
	s.as(made.Secret, "GET", "/v1/whoami", "").wants(200, `"role":"viewer"`, `"namespaces":["*"]`)
	if list := s.call("GET", "/v1/tokens", ""); strings.Contains(list.body, made.Secret[len(made.Secret)-32:]) || strings.Contains(list.body, "hash") {
		t.Errorf("the list shows a secret: %s", list.body)
	}
	now.add(time.Hour - time.Second)
	s.as(made.Secret, "GET", "/v1/whoami", "").wants(200)
	now.add(2 * time.Second)
	s.as(made.Secret, "GET", "/v1/whoami", "").wants(401)
	s.call("GET", "/v1/tokens/"+made.Token.ID, "").wants(200, `"expired":true`)

	bob := s.token("bob", token.Viewer, "shop")
	s.as(bob, "GET", "/v1/rules?namespace=shop", "").wants(200)
	s.call("POST", "/v1/tokens", `{"id":"bob","role":"admin","namespaces":["*"]}`).wants(409)
	s.call("DELETE", "/v1/tokens/bob", "").wants(200)
	s.as(bob, "GET", "/v1/rules?namespace=shop", "").wants(401)
	other := s.token("bob", token.Viewer, "shop")
	if other == bob {
		t.Error("a token of the same id has the same secret")
	}
	s.as(bob, "GET", "/v1/rules?namespace=shop", "").wants(401)
	for _, body := range []string{`{"role":"king","namespaces":["*"]}`, `{"role":"viewer","namespaces":["*"],"expires":"2001-01-01T00:00:00Z"}`, `{"id":"a/b","role":"viewer","namespaces":["*"]}`, `{"id":"admin","role":"viewer","namespaces":["*"]}`, `{"id":"headgate","role":"viewer","namespaces":["*"]}`, `{"id":"first-admin","role":"viewer","namespaces":["*"]}`, `{"role":"viewer","namespaces":"*"}`, `{"role":"viewer","namespaces":["*"],"admin":true}`} {
		s.call("POST", "/v1/tokens", body).wants(422)
	}
}

func TestFirstTokenIsCreatedOnce(t *testing.T) {
	s := open(t, api.Config{})
	if s.admin == "" {
		t.Fatal("no token was told")
	}
	again := open(t, api.Config{DB: s.db, FirstToken: func(token string) { t.Errorf("another first token was made: %s", token) }})
	again.as(s.admin, "GET", "/v1/whoami", "").wants(200, `"id":"first-admin"`)
	file := open(t, api.Config{AdminToken: "a token of a file, long enough"})
	file.call("GET", "/v1/whoami", "").wants(200, `"id":"admin"`)
	if list := file.call("GET", "/v1/tokens", ""); !strings.Contains(list.body, `"tokens":[]`) {
		t.Errorf("a token of a file is kept: %s", list.body)
	}
	if _, err := api.New(api.Config{DB: s.db, Logins: newLogins(t, logins.DefaultLimit), AdminToken: "short"}); err == nil {
		t.Error("a short admin token: got no error")
	}
}

func TestFirstTokensIDIsReserved(t *testing.T) {
	s := open(t, api.Config{AdminToken: "a token of a file, long enough"})
	s.call("POST", "/v1/tokens", `{"id":"first-admin","role":"viewer","namespaces":["*"]}`).wants(422, "none of admin, first-admin, headgate")
	var made string
	first := func(token string) { made = token }
	open(t, api.Config{DB: s.db, FirstToken: first}).call("GET", "/openapi.json", "").wants(200)
	if made == "" {
		t.Fatal("no first token was made")
	}

	// A token from before its ID was reserved.
	s = open(t, api.Config{AdminToken: "a token of a file, long enough"})
	old := &control.Change{Namespace: "_system", Actor: "admin", Action: "tokens.create", Base: control.AnyRevision, Ops: []control.Op{
		{Kind: control.KindToken, ID: "first-admin", Body: []byte(`{"id":"first-admin","role":"viewer","namespaces":["*"],"hash":"x"}`)},
	}}
	if err := s.db.Commit(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	again, err := api.New(api.Config{DB: s.db, Logins: newLogins(t, logins.DefaultLimit), FirstToken: first, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil { // no more writes
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the id of the first admin token is in use") {
		t.Errorf("got %q in the log, want that the id is in use", log.String())
	}
}

func memory(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func newLogins(t testing.TB, limit headgate.Limit) *logins.Throttle {
	t.Helper()
	made, err := logins.New(logins.Options{Limit: limit, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func TestAddressWithFailedLoginsIsDenied(t *testing.T) {
	s := open(t, api.Config{AdminToken: "a token of a file, long enough", Logins: newLogins(t, headgate.PerHour(10))})
	good := s.token("good", token.Viewer, "*")
	denied := 0
	for i := range 30 {
		got := s.as(fmt.Sprintf("a guess, number %d", i), "GET", "/v1/whoami", "")
		switch got.status {
		case http.StatusUnauthorized:
			if got.header.Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
		case http.StatusTooManyRequests:
			if denied++; got.header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		default:
			t.Fatalf("a guess: got %d", got.status)
		}
	}
	if denied != 20 {
		t.Errorf("got %d of 30 guesses denied, want all but 10", denied)
	}
	// A caller that guesses does not learn whether the guess was right; tokens that nobody can guess stay valid.
	s.call("GET", "/v1/whoami", "").wants(429)
	s.as(good, "GET", "/v1/whoami", "").wants(200)
	s.as("hg_good_0000", "GET", "/v1/whoami", "").wants(401)
}

// A node with an expired token retries, perhaps from the host of an operator who could give it a new one.
func TestExpiredTokenLocksOutNobodyElse(t *testing.T) {
	s := open(t, api.Config{AdminToken: "a token of a file, long enough", Logins: newLogins(t, headgate.PerHour(10))})
	old := s.token("old", token.Node, "*")
	s.call("DELETE", "/v1/tokens/old", "").wants(200)
	denied := 0
	for range 30 {
		if s.as(old, "GET", "/v1/snapshot", "").status == http.StatusTooManyRequests {
			denied++
		}
	}
	if denied != 20 {
		t.Errorf("got %d of 30 denied, want all but 10", denied)
	}
	s.call("GET", "/v1/whoami", "").wants(200)
	// If the admin token has that form, the caller may be guessing it.
	formed := open(t, api.Config{AdminToken: "hg_admin_long-enough", Logins: newLogins(t, headgate.PerHour(10))})
	for i := range 10 {
		formed.as(fmt.Sprintf("hg_admin_guess-%d", i), "GET", "/v1/whoami", "").wants(401)
	}
	formed.call("GET", "/v1/whoami", "").wants(429)
}

func TestMalformedTokensAreRefused(t *testing.T) {
	s := open(t, api.Config{})
	good := s.token("good", token.Viewer, "*")
	for _, token := range []string{"hg_", "hg__x", "hg_good_", "hg_good", good + "0", good[:len(good)-1], strings.ToUpper(good), "hg_g%27ood_x", "hg_' OR 1=1 --_x", strings.Repeat("x", 5000)} {
		if got := s.as(token, "GET", "/v1/rules", ""); got.status != 401 && got.status != 429 {
			t.Errorf("token %.40q: got %d, want 401 or 429", token, got.status)
		}
	}
	for _, header := range []string{"Basic " + good, good, "Bearer", "Bearer  ", ""} {
		if got := s.as("", "GET", "/v1/rules", "", "Authorization", header); got.status != 401 {
			t.Errorf("Authorization: %.20q: got %d, want 401", header, got.status)
		}
	}
}
