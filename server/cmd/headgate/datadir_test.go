package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry"
)

func TestARemovedDataDirectoryIsReportedAndNotWritten(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not let an open file be moved")
	}
	dir := filepath.Join(t.TempDir(), "data")
	admin := newFile(t, "admin-token", testAdminToken)
	p := serve(t, onFreePort("--data-dir", dir, "--admin-token-file", admin)...)
	client := rulesService(t, p)
	putRule(t, client, "before", `{"id":"before","limits":["5/s"]}`)
	if _, s := p.status(); s.Degraded || s.Database == nil || !s.Database.Writable {
		t.Fatalf("got %+v; want a database that can be written", s.Database)
	}
	if got := p.metric("headgate_database_writable"); got != 1 {
		t.Errorf("got headgate_database_writable %v, want 1", got)
	}
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	_, err := client.Put(t.Context(), remote.Rules, "after", []byte(`{"id":"after","limits":["5/s"]}`), control.AnyRevision)
	var refused *remote.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable ||
		!strings.Contains(refused.Detail, "removed or replaced") || !strings.Contains(refused.Detail, "headgate backup") {
		t.Errorf("got %v, want 503 that says what happened and what to do", err)
	}
	code, s := p.status()
	if code != http.StatusOK || s.State != telemetry.Ready || !s.Degraded {
		t.Errorf("got %d, %s, degraded %v; want 200, ready, degraded: it still decides", code, s.State, s.Degraded)
	}
	if d := s.Database; d.Writable || !strings.Contains(d.Error, "removed or replaced") || d.Todo == "" {
		t.Errorf("got %+v, want the reason and what to do", d)
	}
	if got := p.metric("headgate_database_writable"); got != 0 {
		t.Errorf("got headgate_database_writable %v, want 0", got)
	}
	if code, _ := get(t, "http://"+p.gateway+"/"); code != http.StatusOK {
		t.Errorf("the gateway answers %d, want 200", code)
	}
	var saved bytes.Buffer
	if err := client.Backup(t.Context(), &saved); err != nil || !strings.Contains(saved.String(), `"before"`) {
		t.Errorf("backup: got %v, %d bytes; want the rule that was there", err, saved.Len())
	}
	if lines := p.logged("the database cannot be written: changes of rules are refused, decisions go on"); len(lines) != 1 {
		t.Errorf("got %d lines, want 1: %v", len(lines), lines)
	}

	if err := os.Rename(dir+".moved", dir); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the database to be writable again", func() bool { _, s := p.status(); return s.Database.Writable && !s.Degraded })
	putRule(t, client, "after", `{"id":"after","limits":["5/s"]}`)
	p.waitLog("the database can be written again")
}
