package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

func TestBackupIsRestoredIntoANewRulesService(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule))
	file := filepath.Join(dir, "kept")
	s.want("token boss is in", "tokens", "create", "--id", "boss", "--role", "admin", "--in", "*", "--write", file)
	saved := filepath.Join(dir, "saved")
	s.want("saved to", "backup", saved)
	told := []string{"rules", "history", "search-per-user", "--output", "json"} // the table says how long ago things were
	history := s.want("search-per-user", told...)

	// Before a rules service is started on the database.
	db := filepath.Join(dir, "rules.db")
	s.want("restored from", "restore", "--db", db, saved)
	s.refuses(cli.ExitFailure, "the database is not empty", "restore", "--db", db, saved)
	s.refuses(cli.ExitFailure, "[db server]", "restore", "--db", db, "--server", "http://127.0.0.1:1", saved)
	p := serve(t, onFreePort("--db", db)...)
	there := []string{"--server", "http://" + p.admin, "--token-file", file}
	if got := s.want("", append(told, there...)...); got != history {
		t.Errorf("the history after it was restored: got\n%s\nwant\n%s", got, history)
	}
	if out := p.stdout.String(); strings.Contains(out, "hg_") {
		t.Errorf("a first token was made beside those of the backup:\n%s", out)
	}

	// By a rules service, which has neither rules of a demonstration nor a first token.
	admin := filepath.Join(dir, "admin")
	writeFile(t, admin, "another-token-of-32-characters-..\n")
	p = serve(t, "--gateway-addr", "off", "--data-dir", filepath.Join(dir, "data"), "--admin-token-file", admin)
	there = []string{"--server", "http://" + p.admin, "--token-file", admin}
	s.want("none", append([]string{"rules", "list"}, there...)...)
	s.want("restored from", append([]string{"restore", saved}, there...)...)
	s.want("search-per-user", append([]string{"rules", "list"}, there...)...) // the token that was used is good still
	s.want("search-per-user", "rules", "list", "--server", "http://"+p.admin, "--token-file", file)
	s.refuses(cli.ExitFailure, "headgate restore --db", append([]string{"restore", saved}, there...)...)
}

// A rules service that was started for the first time has a token, and rules to try, and can be restored into all the
// same.
func TestBackupIsRestoredOverTheFirstToken(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	s.want("created 1", "rules", "apply", "-f", rulesFile(t, searchRule))
	saved := filepath.Join(dir, "saved")
	s.want("saved to", "backup", saved)

	p := serve(t, onFreePort("--data-dir", filepath.Join(dir, "data"))...)
	shown := regexp.MustCompile(`(?m)^  (hg_\S+)$`)
	first := filepath.Join(dir, "first")
	await.NoError(t, "a token", func() error {
		found := shown.FindStringSubmatch(p.stdout.String())
		if found == nil {
			return fmt.Errorf("there is none in %s", p.stdout)
		}
		writeFile(t, first, found[1])
		return nil
	})
	there := func(args ...string) []string {
		return append(args, "--server", "http://"+p.admin, "--token-file", first)
	}
	s.want("demo-per-address", there("rules", "list")...)
	out, errs, code := s.run("", there("restore", saved)...)
	if code != cli.ExitOK || !strings.Contains(out, "restored from") || !strings.Contains(errs, "no token of the backup has all permissions") {
		t.Fatalf("got %d, %s%s", code, out, errs)
	}
	made, _, _ := strings.Cut(out, "\n")
	s.refuses(cli.ExitFailure, "401", there("rules", "list")...) // it was of what is gone
	writeFile(t, first, made)
	s.want("search-per-user", there("rules", "list")...)
	await.NoError(t, "the restored rules in force", func() error { return s.holds("search-per-user", there("keys", "get", "user=acme")...) })

	// Somebody has made something now, which is not given up by accident.
	s.want("reset", there("keys", "reset", "user=acme")...)
	s.want("deleted rule", there("rules", "delete", "search-per-user")...)
	s.refuses(cli.ExitFailure, "--replace", there("restore", saved)...)
	s.want("restored from", there("restore", "--replace", saved)...)
}
