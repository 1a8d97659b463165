package file_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// files returns the rules files of a directory below testdata.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.yaml", "*.json"} {
		paths, err := filepath.Glob(filepath.Join("testdata", dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	if len(found) == 0 {
		t.Fatalf("no files in testdata/%s", dir)
	}
	return found
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// same compares the content of documents, not their positions.
func same(a, b *file.Document) bool {
	rulesSame := len(a.Rules)+len(b.Rules) == 0 || reflect.DeepEqual(a.Rules, b.Rules)
	return rulesSame && (len(a.Clients)+len(b.Clients) == 0 || reflect.DeepEqual(a.Clients, b.Clients))
}

func TestGoodFilesLoadAndCompile(t *testing.T) {
	for _, path := range files(t, "good") {
		doc, err := file.Load(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if _, err := doc.Compile(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFormattedDocumentsParse(t *testing.T) {
	for _, path := range files(t, "good") {
		doc, err := file.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"again.yaml": doc.YAML(), "again.json": doc.JSON()} {
			again, err := file.Parse(name, text)
			if err != nil {
				t.Errorf("%s, written as %s:\n%s\n%v", path, name, text, err)
			} else if !same(doc, again) {
				t.Errorf("%s, written as %s:\n%s\n got %+v\nwant %+v", path, name, text, again, doc)
			}
		}
	}
}

// The golden file beside each bad file holds its problems. Run with -update to rewrite the golden files.
func TestProblemsOfBadFiles(t *testing.T) {
	for _, path := range files(t, "bad") {
		_, err := file.Load(path)
		if err == nil {
			t.Errorf("%s: no error", path)
			continue
		}
		if !errors.Is(err, rules.ErrInvalid) && !errors.Is(err, source.ErrSyntax) {
			t.Errorf("%s: the error wraps neither rules.ErrInvalid nor source.ErrSyntax", path)
		}
		got := strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), "") + "\n"
		golden := path + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want := string(read(t, golden)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
	}
}
