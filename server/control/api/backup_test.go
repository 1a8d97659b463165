package api_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

func TestBackupIsRestoredIntoEmptyDatabase(t *testing.T) {
	const admin = "a token of a file, long enough"
	s := open(t, api.Config{AdminToken: admin})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201)
	viewer := s.token("viewer", token.Viewer, "*")
	backup := s.call("GET", "/v1/backup", "").wants(200, "search")
	to := open(t, api.Config{AdminToken: admin})
	to.call("POST", "/v1/restore", "nonsense").wants(422)
	to.call("POST", "/v1/restore", backup.body).wants(200, `"revision":3`)
	to.as(viewer, "GET", "/v1/rules/search", "").wants(200, `"10/s burst 20"`)
	to.call("GET", "/v1/revisions", "").wants(200, `"revision":1`, `"revision":2`)
	to.call("PATCH", "/v1/rules/search", `{"priority":2}`).wants(200)
	to.call("POST", "/v1/restore", backup.body).wants(409)
}

// A service that was only started counts as empty.
func TestBackupIsRestoredIntoNewService(t *testing.T) {
	const admin = "a token of a file, long enough"
	s := open(t, api.Config{AdminToken: admin})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	boss := s.token("boss", token.Admin, "*")
	backup := s.call("GET", "/v1/backup", "").wants(200)

	to := open(t, api.Config{})
	demo := []byte("rules: [{ id: demo, limits: 1/s }]")
	if _, err := to.server.Apply(t.Context(), "default", "headgate", "demo.yaml", demo); err != nil {
		t.Fatal(err)
	}
	first := to.admin
	to.call("POST", "/v1/restore", backup.body).wants(200, `"revision":2`)
	to.as(first, "GET", "/v1/rules", "").wants(401)
	list := to.as(boss, "GET", "/v1/rules", "").wants(200, `"id":"search"`)
	if strings.Contains(list.body, "demo") {
		t.Errorf("got %s, want nothing of what was there", list.body)
	}
	// A caller has changed something.
	to.as(boss, "POST", "/v1/restore", backup.body).wants(409, "?replace")
	to.as(boss, "PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201)
	to.as(boss, "POST", "/v1/restore?replace=perhaps", backup.body).wants(400)
	to.as(boss, "POST", "/v1/restore?replace", backup.body[:len(backup.body)/2]).wants(422)
	to.as(boss, "GET", "/v1/clients", "").wants(200, `"total":1`)
	to.as(boss, "POST", "/v1/restore?replace", backup.body).wants(200, `"revision":2`)
	to.as(boss, "GET", "/v1/clients", "").wants(200, `"total":0`)
	// The restore itself is the revision after those of the backup.
	to.as(boss, "PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201, `"revision":4`)
}

func TestRestoreCreatesAnAdminTokenIfNeeded(t *testing.T) {
	const admin = "a token of a file, long enough"
	s := open(t, api.Config{AdminToken: admin})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	viewer := s.token("viewer", token.Viewer, "*")
	backup := s.call("GET", "/v1/backup", "").wants(200)
	to := open(t, api.Config{})
	var made struct{ Token string }
	to.call("POST", "/v1/restore", backup.body).wants(200).into(&made)
	to.as(made.Token, "GET", "/v1/whoami", "").wants(200, `"role":"admin"`, `"namespaces":["*"]`)
	to.as(viewer, "GET", "/v1/rules", "").wants(200, `"id":"search"`)
	to.as(made.Token, "DELETE", "/v1/rules/search", "").wants(200)
	// With an admin token of a file, no token is created.
	other := open(t, api.Config{AdminToken: admin})
	if got := other.call("POST", "/v1/restore", backup.body).wants(200); strings.Contains(got.body, "token") {
		t.Errorf("got %s, want no token", got.body)
	}
}
