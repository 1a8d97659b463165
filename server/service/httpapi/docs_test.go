package httpapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/service/httpapi"
)

var blocks = regexp.MustCompile("(?s)```(yaml|http)\n(.*?)```")

// The first block of docs/api.md has rules, and the calls after it get the responses shown there.
func TestExamplesInDocsMatchResponses(t *testing.T) {
	data, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	found := blocks.FindAllStringSubmatch(string(data), -1)
	if len(found) < 13 || len(found)%2 != 1 || found[0][1] != "yaml" {
		t.Fatalf("got %d blocks, want rules and then calls and answers by turns", len(found))
	}
	a := newAPI(t, found[0][2], httpapi.Config{})
	lease := ""
	for i := 1; i+1 < len(found); i += 2 {
		call, want := found[i][2], found[i+1][2]
		head, body, _ := strings.Cut(call, "\n\n")
		method, path, _ := strings.Cut(head, " ")
		r := a.call(method, path, strings.ReplaceAll(body, "LEASE", lease))
		answered := text(t, r)
		var d struct{ LeaseID string }
		if json.Unmarshal([]byte(answered), &d) == nil && d.LeaseID != "" {
			lease = d.LeaseID
			answered = strings.ReplaceAll(answered, lease, "LEASE")
		}
		got := fmt.Sprintf("%d\n%s", r.StatusCode, headerText(r.Header))
		if answered != "" {
			got += "\n" + answered
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", call, got, want)
		}
	}
}
