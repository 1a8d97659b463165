package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry"
)

func TestAPIShowsRulesOfAFileReadOnly(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	const text = "rules:\n  - { id: per-user, key: [user], limits: [%d/h] }\n"
	file := newFile(t, "rules.yaml", fmt.Sprintf(text, 100))
	p := serve(t, "--gateway-addr", "off", "--rules", file, "--admin-token-file", admin)
	client := rulesService(t, p)
	shown := func(want string) {
		t.Helper()
		await.NoError(t, "the API to show "+want, func() error {
			o, err := client.Get(t.Context(), remote.Rules, "per-user")
			if err == nil && !bytes.Contains(o.Body(), []byte(want)) {
				err = fmt.Errorf("got %s", o.Body())
			}
			return err
		})
	}
	shown("100/h")
	for of, body := range map[remote.Collection]string{
		remote.Rules:     fmt.Sprintf(perUserRule, 1),
		remote.Clients:   `{"id":"per-user"}`,
		remote.Overrides: `{"id":"per-user","client":{"user":"x"},"unlimited":true,"for":"1h"}`,
	} {
		_, err := client.Put(t.Context(), of, "per-user", []byte(body), control.AnyRevision)
		var refused *remote.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.Contains(refused.Detail, "file") {
			t.Errorf("%s: got %v", of, err)
		}
	}
	if err := os.WriteFile(file, []byte(fmt.Sprintf(text, 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, p, "x", 200)
	shown("200/h")
	explained := struct{ Rules []struct{ Rule string } }{}
	if err := client.Do(t.Context(), http.MethodPost, "/v1/explain", nil, map[string]any{"attributes": map[string]string{"user": "x"}}, &explained); err != nil {
		t.Error(err)
	}
}

func TestDatabaseFollowsAFile(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	const text = "rules:\n  - { id: per-user, key: [user], limits: [%s] }\nclients:\n  - { id: acme, limits: [300/h] }\n"
	file := newFile(t, "rules.yaml", fmt.Sprintf(text, "100/h"))
	db := filepath.Join(t.TempDir(), "below", "rules.db")
	p := serve(t, "--gateway-addr", "off", "--db", db, "--db-follows", file, "--admin-token-file", admin)
	client := rulesService(t, p)
	waitLimit(t, p, "x", 100)
	waitLimit(t, p, "acme", 300)
	_, err := client.Put(t.Context(), remote.Rules, "other", []byte(`{"id":"other","limits":["1/s"]}`), control.AnyRevision)
	var refused *remote.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.HasSuffix(refused.Detail, file+": change the file.") {
		t.Errorf("got %v", err)
	}
	made, err := client.Apply(t.Context(), remote.Document{Body: []byte(`{"rules":[{"id":"other","limits":["1/s"]}]}`), Media: "application/json"}, false, true, control.AnyRevision)
	if err != nil || len(made.Diff) != 1 {
		t.Errorf("a dry run: got %+v, %v; want one difference", made, err)
	}
	if _, err := client.Put(t.Context(), remote.Overrides, "o", []byte(`{"id":"o","client":{"user":"acme"},"limits":["400/h"],"for":"1h"}`), control.AnyRevision); err != nil {
		t.Error(err)
	}
	waitLimit(t, p, "acme", 400)

	write := func(limit string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(fmt.Sprintf(text, limit)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("200/h")
	waitLimit(t, p, "x", 200)
	write("lots")
	await.NoError(t, "the error to be said", func() error {
		if _, s := p.status(); !strings.Contains(s.Rules.Error, "rules.yaml:2:") || !s.Degraded || s.State != telemetry.Ready {
			return fmt.Errorf("got %+v", s)
		}
		return nil
	})
	waitLimit(t, p, "x", 200)
	write("250/h")
	waitLimit(t, p, "x", 250)
	await.Equal(t, "no error any more", func() string { _, s := p.status(); return s.Rules.Error }, "")
	waitLimit(t, p, "acme", 400)
}
