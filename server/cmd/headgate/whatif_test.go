package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/whatif"
)

const commonLog = `192.0.2.1 - alice [10/Oct/2026:13:55:36 +0000] "GET /search/a HTTP/1.1" 200 2326` + "\n"

func TestWhatIfReplaysAnAccessLog(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "192.0.2.1 - alice [10/Oct/2026:13:%02d:00 +0000] \"GET /search/a HTTP/1.1\" 200 1\n", i)
		if i%10 == 0 {
			fmt.Fprintf(&b, "192.0.2.2 - bob [10/Oct/2026:13:%02d:00 +0000] \"GET /search/a HTTP/1.1\" 200 1\n", i)
			fmt.Fprintf(&b, "192.0.2.2 - bob [10/Oct/2026:13:%02d:00 +0000] \"GET /other HTTP/1.1\" 200 1\n", i)
		}
	}
	b.WriteString("not a log line\n")
	log, rule := filepath.Join(dir, "access.log"), filepath.Join(dir, "new.yaml")
	writeFile(t, log, b.String())
	writeFile(t, rule, "id: search\nwhen: { path: /search/** }\nkey: user\nlimits: 20/h fixed-window\n")
	s := newShell(t)
	out := s.want("20/h fixed-window", "rules", "whatif", "--log", log, "--rule", rule)
	for _, want := range []string{"72 requests, 1 skipped", "user=alice", "99 % of clients unaffected at"} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%swant %q in it", out, want)
		}
	}
	var got struct {
		Rules []*whatif.Result `json:"rules"`
	}
	text := s.want("", "rules", "whatif", "--log", log, "--rule", rule, "--current", rule, "-o", "json")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	r := got.Rules[0]
	if r.Requests.Value != 66 || r.Denied.Value != 40 || r.Affected.Value != 1 || r.Clients.Value != 2 || r.Current.Denied.Value != 40 {
		t.Errorf("got %+v, want 66 requests, 40 of them denied, all of alice", r)
	}
	if r.Unaffected99 == nil || r.Unaffected99.Count != 60 {
		t.Errorf("got %+v, want 60/h to affect nobody", r.Unaffected99)
	}
}

func TestWhatIfRefusesLogsWithoutRequests(t *testing.T) {
	dir := t.TempDir()
	log, rule := filepath.Join(dir, "access.log"), filepath.Join(dir, "new.yaml")
	writeFile(t, log, "nothing\nat all\n")
	writeFile(t, rule, "id: a\nlimits: 1/s\n")
	s := newShell(t)
	_, errs, code := s.run("", "rules", "whatif", "--log", log, "--rule", rule)
	if code != cli.ExitFailure || !strings.Contains(errs, "access.log:1:") || !strings.Contains(errs, "--log-format") {
		t.Errorf("got exit %d, %q", code, errs)
	}
}
