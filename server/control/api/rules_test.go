package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

func TestRuleIsCreatedReadChangedAndDeleted(t *testing.T) {
	s := open(t, api.Config{})
	made := s.call("POST", "/v1/rules", searchRule).wants(http.StatusCreated, `"rule":{"id":"search"`, `"by":"first-admin"`)
	if got := made.header.Get("Location"); got != "/v1/rules/search" {
		t.Errorf("Location: got %q, want /v1/rules/search", got)
	}
	revision := made.etag()
	shown := s.call("GET", "/v1/rules/search", "").wants(http.StatusOK, `"limits":["10/s burst 20"]`)
	if got := shown.etag(); got != revision {
		t.Errorf("ETag: got %d, want %d", got, revision)
	}
	s.call("GET", "/v1/rules/search", "", "If-None-Match", shown.header.Get("ETag")).wants(http.StatusNotModified)

	same := s.call("PUT", "/v1/rules/search", searchRule).wants(http.StatusOK)
	if got := same.etag(); got != revision {
		t.Errorf("PUT of what is there: got revision %d, want the old one, %d", got, revision)
	}
	changed := s.call("PUT", "/v1/rules/search", "id: search\nkey: user\nlimits: 5/s\n", "Content-Type", "application/yaml").wants(http.StatusOK, `"limits":["5/s"]`)
	if got := changed.etag(); got <= revision {
		t.Errorf("PUT: got revision %d, want one after %d", got, revision)
	}
	s.call("PATCH", "/v1/rules/search", `{"limits":["7/s"],"priority":3,"key":null}`, "Content-Type", "application/merge-patch+json").
		wants(http.StatusOK, `{"id":"search","priority":3,"limits":["7/s"]}`)
	s.call("DELETE", "/v1/rules/search", "").wants(http.StatusOK, `"revision":`)
	s.call("GET", "/v1/rules/search", "").wants(http.StatusNotFound, `"status":404`)
	s.call("DELETE", "/v1/rules/search", "").wants(http.StatusNotFound)
	s.call("PATCH", "/v1/rules/search", `{"priority":3}`).wants(http.StatusNotFound)
	s.call("PUT", "/v1/rules/search", searchRule).wants(http.StatusCreated)
}

func TestStaleConditionReturnsTheDifference(t *testing.T) {
	s := open(t, api.Config{})
	first := s.call("POST", "/v1/rules", searchRule).wants(http.StatusCreated).header.Get("ETag")
	s.call("PUT", "/v1/rules/search", strings.Replace(searchRule, "10/s", "11/s", 1), "If-Match", first).wants(http.StatusOK)

	lost := s.call("PUT", "/v1/rules/search", strings.Replace(searchRule, "10/s", "12/s", 1), "If-Match", first).wants(http.StatusPreconditionFailed)
	var p struct {
		Diff    string
		Current struct {
			Rule     json.RawMessage
			Revision int64
		}
	}
	lost.into(&p)
	if !strings.Contains(p.Diff, "-limits: [11/s burst 20]") || !strings.Contains(p.Diff, "+limits: [12/s burst 20]") {
		t.Errorf("diff: got\n%s\nwant from 11/s to 12/s", p.Diff)
	}
	if !strings.Contains(string(p.Current.Rule), "11/s") || p.Current.Revision == 0 {
		t.Errorf("current: got %s at %d, want what is there", p.Current.Rule, p.Current.Revision)
	}
	for _, tt := range []struct {
		method, header, value string
		want                  int
	}{
		{"PATCH", "If-Match", first, 412},
		{"DELETE", "If-Match", first, 412},
		{"PUT", "If-None-Match", "*", 412},
		{"PUT", "If-Match", `W/"1"`, 400},
		{"PUT", "If-Match", `1`, 400},
		{"PUT", "If-Match", `"other"`, 412},
		{"PUT", "If-Match", "*", 200},
		{"PUT", "If-Match", `"9", ` + fmt.Sprintf("%q", "0"), 412},
	} {
		body := searchRule
		if tt.method == "PATCH" {
			body = `{"priority":1}`
		}
		got := s.call(tt.method, "/v1/rules/search", body, tt.header, tt.value)
		if got.status != tt.want {
			t.Errorf("%s with %s: %s: got %d, want %d: %s", tt.method, tt.header, tt.value, got.status, tt.want, got.body)
		}
	}
	s.call("PUT", "/v1/rules/other", strings.Replace(searchRule, "search", "other", 1), "If-Match", `"1"`).wants(http.StatusPreconditionFailed)
	s.call("POST", "/v1/rules", searchRule).wants(http.StatusConflict, `"current"`)
}

func TestAllProblemsOfARuleAreListedWithPaths(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{
  "id": "a b",
  "limits": ["ten/s", "5/s"],
  "whenever": {},
  "on_limit": "explode"
}`).wants(http.StatusUnprocessableEntity, `"path":"id"`, `"path":"limits[0]"`, `"path":"whenever"`, `"path":"on_limit"`, `"line":4`, `"line":3`)
	s.call("POST", "/v1/rules", "id: x\nlimits: [ten/s]\n", "Content-Type", "application/yaml").wants(http.StatusUnprocessableEntity, `"path":"limits[0]"`, `"line":2`)
	s.call("GET", "/v1/rules", "").wants(http.StatusOK, `"rules":[]`, `"total":0`)
}

func TestRulesThatClientsCannotMeetAreRefused(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme","limits":["3/s"],"rules":[{"id":"search","limits":["500/s"]}]}`).wants(201)
	for _, tt := range []struct{ name, method, path, body, want string }{
		{"a rule that a client has limits under goes", "DELETE", "/v1/rules/search", "", `"path":"clients"`},
		{"a cost that a client's limit has no room for", "PATCH", "/v1/rules/search", `{"cost":10}`, `3/s`},
		{"a client of a rule that is not there", "PUT", "/v1/clients/b", `{"id":"b","rules":[{"id":"none","block":true}]}`, `"path":"rules[0].id"`},
		{"a value of another client", "PUT", "/v1/clients/b", `{"id":"b","attributes":{"user":"acme"}}`, `"path":"attributes.user"`},
		{"an override of a rule that is not there", "POST", "/v1/overrides", `{"client":{"user":"z"},"rule":"none","limits":["1/s"],"for":"1h"}`, `"path":"rule"`},
	} {
		got := s.call(tt.method, tt.path, tt.body)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: got %d %s\nwant 422 with %s", tt.name, got.status, got.body, tt.want)
		}
	}
	// A change of a rule that does not concern clients passes, and so does a change of the client.
	s.call("PATCH", "/v1/rules/search", `{"limits":["1/s"]}`).wants(200)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme","limits":["20/s"]}`).wants(200)
	s.call("PATCH", "/v1/rules/search", `{"cost":10,"limits":["10/s"]}`).wants(200)
	s.call("DELETE", "/v1/rules/search", "").wants(200)
}

func TestApplyMovesValuesBetweenClients(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules:apply", "clients: [{id: a, attributes: {user: [x, y]}}, {id: b, attributes: {user: z}}]", "Content-Type", "application/yaml").wants(200)
	s.call("POST", "/v1/rules:apply", "clients: [{id: a, attributes: {user: [z]}}, {id: b, attributes: {user: [x, y]}}]", "Content-Type", "application/yaml").wants(200)
	s.call("PUT", "/v1/clients/c", `{"id":"c","attributes":{"user":"y"}}`).wants(422, `identifies \"b\"`)
	s.call("PUT", "/v1/clients/b", `{"id":"b","attributes":{"user":"q"}}`).wants(200)
	s.call("PUT", "/v1/clients/c", `{"id":"c","attributes":{"user":"y"}}`).wants(201)
}

func TestListsArePagedAndSearched(t *testing.T) {
	s := open(t, api.Config{})
	var file strings.Builder
	file.WriteString("rules:\n")
	for i := range 57 {
		fmt.Fprintf(&file, "  - { id: rule-%02d, description: number %d, limits: 5/s }\n", i, i)
	}
	s.call("POST", "/v1/rules:apply", file.String(), "Content-Type", "application/yaml").wants(200)
	seen := map[string]bool{}
	cursor, pages := "", 0
	for {
		var page struct {
			Rules []struct{ Rule struct{ ID string } }
			Next  string
			Total int
		}
		s.call("GET", "/v1/rules?limit=10&cursor="+cursor, "").wants(200).into(&page)
		pages++
		if page.Total != 57 {
			t.Errorf("total: got %d, want 57", page.Total)
		}
		for _, r := range page.Rules {
			if seen[r.Rule.ID] {
				t.Errorf("%s is there twice", r.Rule.ID)
			}
			seen[r.Rule.ID] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 57 || pages != 6 {
		t.Errorf("got %d rules on %d pages, want 57 on 6", len(seen), pages)
	}
	s.call("GET", "/v1/rules?q=NUMBER%204", "").wants(200, `"total":11`, "rule-04", "rule-49")
	for _, field := range []string{"limits", "description", "id", "%22limits%22"} { // all have them
		s.call("GET", "/v1/rules?q="+field, "").wants(200, `"total":0`)
	}
	s.call("GET", "/v1/rules?q=%25", "").wants(200, `"total":0`)
	for _, bad := range []string{"limit=0", "limit=x", "cursor=%21", "cursor=W10", "limit=5&limit=6", "nosuch=1", "namespace=a/b", "q=" + strings.Repeat("x", 300)} {
		s.call("GET", "/v1/rules?"+bad, "").wants(400)
	}
}

func TestApplyReplacesTheNamespace(t *testing.T) {
	s := open(t, api.Config{})
	const file = `
rules:
  - { id: a, limits: 1/s }
  - { id: b, key: user, limits: 2/s }
clients:
  - { id: acme, limits: 9/s }
`
	yaml := []string{"Content-Type", "application/yaml"}
	s.call("POST", "/v1/rules:apply?dry_run=true", file, yaml...).wants(200, `"dry_run":true`, `"action":"create"`, `+limits: [2/s]`, `"revision":0`)
	s.call("GET", "/v1/rules", "").wants(200, `"total":0`)
	first := s.call("POST", "/v1/rules:apply", file, yaml...).wants(200, `"unchanged":0`)
	again := s.call("POST", "/v1/rules:apply?prune", file, yaml...).wants(200, `"diff":[]`, `"unchanged":3`)
	if first.etag() != again.etag() {
		t.Errorf("applying it again: got revision %d, want the same as before, %d", again.etag(), first.etag())
	}
	s.call("PUT", "/v1/rules/c", `{"id":"c","limits":["3/s"]}`).wants(201)
	changed := strings.Replace(file, "1/s", "5/s", 1)
	s.call("POST", "/v1/rules:apply", changed, append(yaml, "If-Match", first.header.Get("ETag"))...).
		wants(412, `"current":{"revision":`, `"diff":"--- rule a\n`, `-limits: [1/s]\n+limits: [5/s]`)
	s.call("POST", "/v1/rules:apply?dry_run&prune", changed, yaml...).wants(200, `"id":"c","action":"delete"`, `"id":"a","action":"update"`, `"unchanged":2`)
	s.call("POST", "/v1/rules:apply", changed, yaml...).wants(200, `"unchanged":2`)
	s.call("GET", "/v1/rules/c", "").wants(200)
	// Clients stay if the file has no list of clients.
	s.call("POST", "/v1/rules:apply?prune=true", "rules: [{ id: a, limits: 5/s }]", yaml...).wants(200)
	s.call("GET", "/v1/clients/acme", "").wants(200)
	s.call("GET", "/v1/rules", "").wants(200, `"total":1`)
	s.call("POST", "/v1/rules:apply?prune=true", "rules: []\nclients: []", yaml...).wants(200)
	s.call("GET", "/v1/clients", "").wants(200, `"total":0`)

	s.call("POST", "/v1/rules:apply", "rules:\n  - { id: x, limits: ten/s }\n  - { id: x }\n", yaml...).wants(422, `"path":"rules[0].limits[0]"`, `"line":2`, `"path":"rules[1]`)
	s.call("POST", "/v1/rules:apply?dry-run=true", file, yaml...).wants(400, "dry_run")
	// A rollback with a stale condition returns the difference that it would make.
	s.call("POST", fmt.Sprintf("/v1/revisions/%d:rollback", first.etag()), "", "If-Match", first.header.Get("ETag")).wants(412, `"diff":"--- `, `+limits: [2/s]`)
}

func TestHistoryHasActorsAndChangesAndCanBeRolledBack(t *testing.T) {
	s := open(t, api.Config{})
	alice := s.token("alice", token.Editor, "default")
	s.as(alice, "POST", "/v1/rules", searchRule).wants(201)
	n := s.as(alice, "PATCH", "/v1/rules/search?note=more%20for%20all", `{"limits":["99/s"]}`).wants(200).etag()
	s.call("PUT", "/v1/rules/other", `{"id":"other","limits":["1/s"]}`).wants(201)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201)
	s.call("DELETE", "/v1/rules/search", "").wants(200)

	s.call("GET", "/v1/revisions", "").wants(200, `"actor":"alice"`, `"note":"more for all"`, `"action":"rules.patch"`, `"kind":"rule","id":"other","action":"create"`)
	s.call("GET", "/v1/revisions?kind=rule&id=search&limit=1", "").wants(200, `"action":"delete"`, `"next":`)
	s.call("GET", "/v1/revisions?kind=token", "").wants(400)
	s.call("GET", fmt.Sprintf("/v1/revisions/%d", n), "").wants(200, "+limits: [99/s]", `"before":{"id":"search"`)
	s.call("GET", fmt.Sprintf("/v1/revisions/%d/diff", n), "").wants(200, `"id":"search","action":"delete"`, `"id":"other","action":"create"`, `"id":"acme"`)
	s.call("GET", fmt.Sprintf("/v1/revisions/%d/diff?to=%d", n, n-1), "").wants(200, "-limits: [99/s]")
	s.call("GET", "/v1/revisions/99999", "").wants(404)
	s.call("GET", "/v1/revisions/9999999999999999999", "").wants(404)
	s.call("GET", "/v1/revisions/x/diff", "").wants(404)
	s.call("POST", "/v1/revisions/99999:rollback", "").wants(404)

	s.call("POST", fmt.Sprintf("/v1/revisions/%d:rollback?dry_run", n), "").wants(200, `"id":"search","action":"create"`, `"id":"other","action":"delete"`)
	s.call("GET", "/v1/rules/search", "").wants(404)
	s.call("POST", fmt.Sprintf("/v1/revisions/%d:rollback", n), "").wants(200)
	s.call("GET", "/v1/rules/search", "").wants(200, `"99/s"`)
	s.call("GET", "/v1/rules/other", "").wants(404)
	s.call("GET", "/v1/clients/acme", "").wants(200)
	s.call("POST", fmt.Sprintf("/v1/revisions/%d:rollback?all", n-1), "").wants(200)
	s.call("GET", "/v1/rules/search", "").wants(200, `"10/s burst 20"`)
	s.call("GET", "/v1/clients/acme", "").wants(404)
}

func TestAuditHasAllChangesAndNoSecrets(t *testing.T) {
	s := open(t, api.Config{Hooks: loopback})
	alice := s.token("alice", token.Editor, "shop")
	s.as(alice, "PUT", "/v1/rules/search?namespace=shop", searchRule).wants(201)
	s.call("POST", "/v1/webhooks?namespace=shop", `{"id":"hook","url":"https://192.0.2.7/x","secret":"0123456789abcdef-secret"}`).wants(201)
	s.as("hg_alice_wrong", "GET", "/v1/rules?namespace=shop", "").wants(401)
	got := s.call("GET", "/v1/audit", "").wants(200, `"actor":"alice"`, `"from":"127.0.0.1"`, `"kind":"token","id":"alice"`, `"kind":"webhook"`, `"failed_logins":{"count":1`)
	_, secret, _ := strings.Cut(strings.TrimPrefix(alice, "hg_"), "_")
	for _, hidden := range []string{"0123456789abcdef-secret", secret, `"hash"`} {
		if strings.Contains(got.body, hidden) {
			t.Errorf("the audit shows %s", hidden)
		}
	}
	shop := s.token("shop-admin", token.Admin, "shop")
	s.token("other", token.Viewer, "blog")
	seen := s.as(shop, "GET", "/v1/audit", "").wants(200, `"id":"alice"`, `"id":"search"`, `"id":"hook"`)
	for _, hidden := range []string{"first-admin\",\"action", `"id":"other"`, "failed_logins"} {
		if strings.Contains(seen.body, hidden) {
			t.Errorf("the audit of one namespace shows %s: %s", hidden, seen.body)
		}
	}
	s.as(shop, "GET", "/v1/audit?namespace=blog", "").wants(403)
}

func TestOverridesExpire(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	var made struct {
		Override struct{ ID, Expires string }
	}
	s.call("POST", "/v1/overrides", `{"client":{"user":"acme"},"limits":["500/s"],"for":"72h","note":"sale"}`).wants(201).into(&made)
	s.call("GET", "/v1/overrides/"+made.Override.ID, "").wants(200, `"limits":["500/s"]`, made.Override.Expires)
	s.call("PUT", "/v1/overrides/friday", `{"client":{"user":"b"},"rule":"search","unlimited":true,"expires":"2099-01-01T00:00:00Z"}`).wants(422, "366 days")
	s.call("PUT", "/v1/overrides/friday", `{"client":{"user":"b"},"rule":"search","unlimited":true,"for":"1h"}`).wants(201)
	s.call("POST", "/v1/keys:override", `{"client":{"user":"c"},"block":true,"for":"1h"}`).wants(201)
	s.call("POST", "/v1/overrides", `{"client":{"user":"c"},"for":"1h"}`).wants(422, `"path":"limits"`)
	s.call("GET", "/v1/overrides", "").wants(200, `"total":3`)
	s.call("DELETE", "/v1/overrides/friday", "").wants(200)
	s.call("GET", "/v1/overrides?q=acme", "").wants(200, `"total":1`)
}

func TestValidateListsAllProblems(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/validate", searchRule).wants(200, `"valid":true`)
	s.call("POST", "/v1/validate", "rules: [{ id: a, limits: 1/s }]\nclients: [{ id: c }]", "Content-Type", "application/yaml").wants(200, `"rules":1,"clients":1`)
	s.call("POST", "/v1/validate", "rules:\n- { id: a, limits: x }\n- { id: '', limits: 1/s }\n", "Content-Type", "application/yaml").
		wants(422, `"path":"rules[0].limits`, `"path":"rules[1].id"`, `"line":2`, `"line":3`)
	s.call("POST", "/v1/validate", "").wants(422)
	s.call("POST", "/v1/validate", "[1]").wants(422)
}

func TestExpiredOverridesAreRemoved(t *testing.T) {
	db := openDB(t)
	const admin = "a token of a file, long enough"
	first := open(t, api.Config{DB: db, AdminToken: admin})
	first.call("POST", "/v1/overrides", `{"id":"short","client":{"user":"a"},"block":true,"for":"30m"}`).wants(201)
	first.call("POST", "/v1/overrides", `{"id":"long","client":{"user":"b"},"block":true,"for":"2h"}`).wants(201)
	later := newClock()
	later.add(100 * time.Minute)
	s := open(t, api.Config{DB: db, AdminToken: admin, Now: later.time})
	await.True(t, "the one that is over is removed", func() bool { return s.call("GET", "/v1/overrides/short", "").status == 404 })
	s.call("GET", "/v1/overrides/long", "").wants(200)
	s.call("GET", "/v1/revisions?limit=1", "").wants(200, `"actor":"headgate"`, `"action":"overrides.expire"`)
}

func TestImportFileWithTooManyClientsIsRefused(t *testing.T) {
	s := open(t, api.Config{})
	file := `{"clients":[{"id":"c"}` + strings.Repeat(`,{"id":"d"}`, 50_000) + `]}`
	s.call("POST", "/v1/rules:apply?dry_run", file).wants(http.StatusRequestEntityTooLarge, "/v1/clients:import")
}
