package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/await"
)

func TestChangedRulesFileIsLoaded(t *testing.T) {
	t.Parallel()
	rules := rulesFile(t, "rules:\n  - { id: a, key: [api_key], limits: [2/h] }\n")
	p := serve(t, onFreePort("--rules", rules)...)
	alice := newClient(t, p.gateway, "X-API-Key", "alice")
	alice.want(2, 200)
	alice.want(1, 429)

	// A raised limit helps at once, by as much as it was raised.
	writeFile(t, rules, "rules:\n  - { id: a, key: [api_key], limits: [5/h] }\n")
	p.waitLog("rules loaded")
	alice.want(3, 200)
	alice.want(1, 429)

	// What is wrong changes nothing, and everybody who looks is told.
	writeFile(t, rules, "rules:\n  - { id: a, key: [api_key], limits: [5/fortnight] }\n")
	line := p.waitLog("rules refused, keeping the rules in force")
	if text, _ := line["err"].(string); !strings.Contains(text, "rules.yaml:2:") || !strings.Contains(text, "rules[0].limits[0]") {
		t.Errorf("got %v, want where it is wrong", line)
	}
	alice.want(1, 429)
	newClient(t, p.gateway, "X-API-Key", "bob").want(5, 200)
	code, s := p.status()
	if code != 200 || !s.Degraded || s.Rules.Revision != 2 || !strings.Contains(s.Rules.Error, "rules.yaml:2:") {
		t.Errorf("got %d %+v", code, s)
	}
	if p.metric("headgate_rules_stale") != 1 || p.metric("headgate_rules_revision") != 2 {
		t.Error("the metrics say nothing of it")
	}

	// A file that is gone is as bad.
	if err := os.Remove(rules); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "the file to be missed", func() error {
		if _, s := p.status(); !strings.Contains(s.Rules.Error, "no such file") {
			return fmt.Errorf("got %q", s.Rules.Error)
		}
		return nil
	})
	alice.want(1, 429)

	// Right again.
	writeFile(t, rules, "rules:\n  - { id: a, key: [api_key], limits: [6/h] }\n")
	await.NoError(t, "the rules", func() error {
		if _, s := p.status(); s.Degraded || s.Rules.Revision != 3 {
			return fmt.Errorf("got %+v", s)
		}
		return nil
	})
	alice.want(1, 200)
	if p.metric("headgate_rules_stale") != 0 {
		t.Error("the metrics still say that rules are stale")
	}
}

func TestSwappedKubernetesConfigMapIsLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, limit string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name, "rules.yaml"), "rules:\n  - { id: a, key: [api_key], limits: ["+limit+"] }\n")
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "1/h")
	path := filepath.Join(dir, "rules.yaml")
	if err := os.Symlink(filepath.Join("..data", "rules.yaml"), path); err != nil {
		t.Fatal(err)
	}
	p := serve(t, onFreePort("--rules", path)...)
	alice := newClient(t, p.gateway, "X-API-Key", "alice")
	alice.want(1, 200)
	alice.want(1, 429)
	for i := 2; i <= 4; i++ {
		version(fmt.Sprintf("..%d", i), fmt.Sprintf("%d/h", i))
		await.NoError(t, "the new rules", func() error {
			if _, s := p.status(); s.Rules.Revision != uint64(i) {
				return fmt.Errorf("got revision %d", s.Rules.Revision)
			}
			return nil
		})
		alice.want(1, 200)
		alice.want(1, 429)
	}
}

func TestSIGHUPReadsTheRulesAgain(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort("--rules", rulesFile(t, "rules:\n  - { id: a, limits: [2/h] }\n"))...)
	before := p.metric(`headgate_rules_loads_total{result="unchanged"}`)
	p.signal(syscall.SIGHUP)
	await.NoError(t, "the file to be read", func() error {
		if got := p.metric(`headgate_rules_loads_total{result="unchanged"}`); got <= before {
			return fmt.Errorf("got %v times, before it was %v", got, before)
		}
		return nil
	})
	newClient(t, p.gateway).want(1, 200)
}
