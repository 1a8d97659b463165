package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/reference"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

const root = "../../../../../"

// The pages of docs/reference are those that the code gives.
func TestReferencePagesAreUpToDate(t *testing.T) {
	fields, err := reference.Rules(rules.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		"errors.md": reference.Errors(),
		"rules.md":  fields,
		"decision-api.md": apiPage(t, "server/service/httpapi/openapi.json", "Calls of the decision API",
			"All calls of the decision service on `--api-addr`. [Decisions over HTTP](../api.md) has examples."),
		"rules-api.md": apiPage(t, "server/control/api/openapi.json", "Calls of the rules API",
			"All calls of the rules service on `--admin-addr`. [The rules API](../rules-api.md) has examples."),
	} {
		path := filepath.Join(root, "docs/reference", name)
		if *update {
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not up to date (go test -update): got\n%s\nwant\n%s", path, got, want)
		}
	}
}

func apiPage(t *testing.T, document, title, text string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	page, err := reference.API(data, title, text)
	if err != nil {
		t.Fatal(err)
	}
	return page
}
