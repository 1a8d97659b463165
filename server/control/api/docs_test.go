package api_test

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/api"
)

var (
	httpBlocks = regexp.MustCompile("(?s)```http\n(.*?)```")
	times      = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	secrets    = regexp.MustCompile(`hg_alice_[0-9a-f]{64}`)
)

// The calls in docs/rules-api.md get the responses shown there, except for times and secrets.
func TestExamplesInDocsAreTrue(t *testing.T) {
	data, err := os.ReadFile("../../../docs/rules-api.md")
	if err != nil {
		t.Fatal(err)
	}
	found := httpBlocks.FindAllStringSubmatch(string(data), -1)
	if len(found) < 20 || len(found)%2 != 0 {
		t.Fatalf("got %d blocks, want calls and answers by turns", len(found))
	}
	s := open(t, api.Config{})
	for i := 0; i < len(found); i += 2 {
		head, body, _ := strings.Cut(found[i][1], "\n\n")
		lines := strings.Split(strings.TrimSpace(head), "\n")
		method, path, _ := strings.Cut(lines[0], " ")
		var headers []string
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			headers = append(headers, name, value)
		}
		got := s.call(method, path, inAWhile(body), headers...)
		head, want, _ := strings.Cut(found[i+1][1], "\n\n")
		lines = strings.Split(strings.TrimSpace(head), "\n")
		if lines[0] != strconv.Itoa(got.status) {
			t.Errorf("%s %s: got %d, want %s\n%s", method, path, got.status, lines[0], got.body)
			continue
		}
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			if got.header.Get(name) != value {
				t.Errorf("%s %s: %s: got %q, want %q", method, path, name, got.header.Get(name), value)
			}
		}
		if g, w := usual(t, got.body), usual(t, want); !reflect.DeepEqual(g, w) {
			t.Errorf("%s %s:\n got %s\nwant %s", method, path, got.body, want)
		}
	}
}

// inAWhile replaces the expiry of an override in the document by a future one.
func inAWhile(body string) string {
	return strings.ReplaceAll(body, `"expires":"2026-11-20T18:00:00Z"`, `"expires":"`+time.Now().Add(30*24*time.Hour).UTC().Format(time.RFC3339)+`"`)
}

// usual returns JSON without the parts that differ in each run.
func usual(t *testing.T, text string) any {
	t.Helper()
	text = secrets.ReplaceAllString(times.ReplaceAllString(text, `"TIME"`), "SECRET")
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}
