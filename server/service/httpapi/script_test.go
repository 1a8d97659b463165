package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/service/httpapi"
)

var update = flag.Bool("update", false, "write what is answered into the scripts of testdata")

// A script is rules, and then steps: "--- advance 1s", or "--- call POST /v1/ratelimit" with headers, an empty line and
// a body, and then "--- answer" with the response.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(data))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(data), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d:\n got %s\nwant %s\n\nall that was answered:\n%s", path, i+1, line, want[min(i, len(want)-1)], got)
				}
			}
		})
	}
}

// play returns the script with the actual responses.
func play(t *testing.T, script string) string {
	parts := strings.Split(script, "\n--- ")
	a := newAPI(t, parts[0], httpapi.Config{})
	schema := readSchema(t)
	var b strings.Builder
	b.WriteString(parts[0])
	lease := ""
	for _, part := range parts[1:] {
		head, rest, _ := strings.Cut(part, "\n")
		words := strings.Fields(head)
		switch words[0] {
		case "answer":
			continue
		case "advance":
			d, err := time.ParseDuration(words[1])
			if err != nil {
				t.Fatal(err)
			}
			a.clock.Advance(d)
			b.WriteString("\n--- " + part)
		case "store":
			a.store.Unreachable.Store(words[1] == "away")
			b.WriteString("\n--- " + part)
		case "call":
			b.WriteString("\n--- " + part)
			header, body, _ := strings.Cut("\n"+rest, "\n\n")
			var fields []string
			for line := range strings.Lines(strings.TrimPrefix(header, "\n")) {
				if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
					fields = append(fields, name, value)
				}
			}
			body = strings.ReplaceAll(strings.TrimSpace(body), "LEASE", lease)
			r := a.call(words[1], words[2], body, fields...)
			answered := text(t, r)
			schema.check(t, words[1], words[2], r, answered)
			b.WriteString("\n--- answer " + fmt.Sprint(r.StatusCode) + "\n" + headerText(r.Header))
			if answered != "" {
				var d struct{ LeaseID string }
				if json.Unmarshal([]byte(answered), &d) == nil && d.LeaseID != "" {
					lease = d.LeaseID
					answered = strings.ReplaceAll(answered, lease, "LEASE")
				}
				b.WriteString("\n" + answered)
			}
		default:
			t.Fatalf("no such step: %s", head)
		}
	}
	return b.String()
}

// headerText returns the header of a response, sorted, without the fields of every response.
func headerText(h http.Header) string {
	var lines []string
	for name, values := range h {
		if name == "Content-Length" || name == "Content-Type" && values[0] == "application/json" {
			continue
		}
		for _, value := range values {
			lines = append(lines, name+": "+value+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
