package api_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// eventOf returns the audit entries of an event, the latest first.
func (s *service) eventOf(token, query, action string) answer {
	s.t.Helper()
	return s.as(token, "GET", "/v1/audit?limit=1&kind=event"+query, "").wants(200, `"action":"`+action+`"`, `"kind":"event","id":"`+action+`","action":"create"`)
}

func TestResetIsAuditedWithoutSecrets(t *testing.T) {
	s := open(t, api.Config{Node: engineOf(t, explained)})
	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"acme","ip":"192.0.2.1","api_key":"sesame","header.authorization":"Basic c2VzYW1lOng="}}`).wants(200)
	got := s.eventOf(s.admin, "", "keys.reset").wants(200, `"actor":"first-admin"`, `"from":"127.0.0.1"`, `"namespace":"default"`,
		`"user":"acme"`, `"ip":"192.0.2.1"`, `"api_key":"(hidden)"`, `"rules":["`, `"nodes":1`)
	if strings.Contains(got.body, "sesame") || strings.Contains(got.body, "c2VzYW1l") {
		t.Errorf("got %s, want no value that may be a secret", got.body)
	}
	// Each event has its own content, and nothing of the one before.
	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"globex"}}`).wants(200)
	if got = s.eventOf(s.admin, "", "keys.reset").wants(200, `"user":"globex"`); strings.Contains(got.body, "acme") {
		t.Errorf("got %s, want the latest alone", got.body)
	}
	s.call("GET", "/v1/audit?kind=event", "").wants(200, "acme", "globex")
	// Callers of the namespace see it. It changes nothing for nodes, and is not in the history of rules.
	s.eventOf(s.token("boss", token.Admin, "default"), "&namespace=default", "keys.reset")
	s.as(s.token("other", token.Admin, "shop"), "GET", "/v1/audit?kind=event", "").wants(200, `"audit":[]`)
	s.call("GET", "/v1/revisions", "").wants(200, `"revisions":[]`)
	s.call("GET", "/v1/revisions?kind=event", "").wants(400)
	// A failed reset is not in the audit.
	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"nobody"},"rule":"none"}`).wants(404)
	if got := s.call("GET", "/v1/audit?kind=event", ""); strings.Contains(got.body, "nobody") {
		t.Errorf("got %s, want nothing of a reset that was refused", got.body)
	}
}

func TestRestoreIsAudited(t *testing.T) {
	const admin = "a token of a file, long enough"
	s := open(t, api.Config{AdminToken: admin})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	backup := s.call("GET", "/v1/backup", "").wants(200)
	s.call("PATCH", "/v1/rules/search", `{"priority":2}`).wants(200)
	s.call("PATCH", "/v1/rules/search", `{"priority":3}`).wants(200)
	s.call("POST", "/v1/restore?replace", backup.body).wants(200, `"revision":1`)
	s.eventOf(admin, "&namespace=*", "restore").wants(200, `"actor":"admin"`, `"from":"127.0.0.1"`, `"revision":1`, `"replaced":3`)
	s.call("GET", "/v1/rules/search", "").wants(200, `"revision":1`)
}

// lastWords is a database that refuses commits after a restore, as if the process died then.
type lastWords struct {
	control.DB
	restored atomic.Bool
}

func (l *lastWords) Restore(ctx context.Context, r io.Reader, over int64) error {
	err := l.DB.Restore(ctx, r, over)
	l.restored.Store(err == nil)
	return err
}

func (l *lastWords) Commit(ctx context.Context, c *control.Change) error {
	if l.restored.Load() {
		return errors.New("it has died")
	}
	return l.DB.Commit(ctx, c)
}

func TestRestoreIsAuditedAsItsLastChange(t *testing.T) {
	const admin = "a token of a file, long enough"
	s := open(t, api.Config{AdminToken: admin, DB: &lastWords{DB: openDB(t)}})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	backup := s.call("GET", "/v1/backup", "").wants(200)
	for range 2 { // the second replaces an earlier event
		s.call("POST", "/v1/restore?replace", backup.body).wants(200, `"revision":1`)
		s.eventOf(admin, "&namespace=*", "restore").wants(200, `"revision":1`)
	}
	backup = s.call("GET", "/v1/backup", "").wants(200)
	s.call("POST", "/v1/restore?replace", backup.body).wants(200, `"revision":2`)
	s.call("GET", "/v1/audit?kind=event&namespace=*", "").wants(200, `"revision":3`, `"revision":2`, `"replaced":2`)
	// A refused restore is not in the audit.
	s.call("POST", "/v1/restore?replace", strings.Replace(backup.body, "search", "sEarch", 1)).wants(422)
	if got := s.call("GET", "/v1/audit?kind=event&namespace=*", ""); strings.Contains(got.body, `"revision":4`) {
		t.Errorf("got %s, want nothing of a restore that was refused", got.body)
	}
}

// A restored database may be at the same number, which now stands for another change. Watchers are disconnected: a
// node fetches the rules when its stream is back, whatever the number.
func TestWatchersAreDisconnectedWhenRevisionsAreRenumbered(t *testing.T) {
	const admin = "a token of a file, long enough"
	other := open(t, api.Config{AdminToken: admin})
	other.call("POST", "/v1/rules", `{"id":"other","limits":["1/s"]}`).wants(201, `"revision":1`)
	backup := other.call("GET", "/v1/backup", "").wants(200)

	s := open(t, api.Config{AdminToken: admin})
	s.call("POST", "/v1/rules", searchRule).wants(201, `"revision":1`)
	w := s.mustWatch(admin, "default", "")
	w.wants(1)
	// A change without objects for nodes disconnects nobody.
	s.token("viewer", token.Viewer, "*")
	s.call("POST", "/v1/restore?replace", backup.body).wants(200, `"revision":1`)
	ended := time.AfterFunc(time.Minute, w.close)
	defer ended.Stop()
	if data, _, err := w.next(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %q, %v, want the stream to end", data, err)
	}
	// New watchers have the new revision, and stay.
	w = s.mustWatch(admin, "default", "1")
	s.call("PATCH", "/v1/rules/other", `{"priority":1}`).wants(200, `"revision":3`)
	w.wants(3)
}
