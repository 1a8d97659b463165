package file_test

import (
	"errors"
	"flag"
	"fmt"
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

// No error lists more than rules.MaxProblems problems: the last line says how many others there are.
func TestCompileCountsProblemsThatItDoesNotList(t *testing.T) {
	const count = rules.MaxProblems + 20
	parse := func(name string) *file.Document {
		var text strings.Builder
		text.WriteString("rules:\n")
		for i := range count {
			fmt.Fprintf(&text, "  - { id: r%d, limits: 10/s }\n", i)
		}
		doc, err := file.Parse(name, []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	_, err := file.Compile(parse("a.yaml"), parse("b.yaml"))
	if !errors.Is(err, rules.ErrInvalid) || !strings.HasSuffix(err.Error(), "\ninvalid rules: and 20 more") {
		t.Errorf("got %v, want an error that ends in 20 more problems", err)
	}
}

func TestCompileNamesTheLineWithTheSameValue(t *testing.T) {
	parse := func(name, text string) *file.Document {
		doc, err := file.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	_, err := file.Compile(
		parse("a.yaml", "rules:\n  - { id: a, limits: 1/s }\n  - { id: b, limits: 1/s }\n"),
		parse("b.yaml", "rules:\n  - { id: c, limits: 1/s }\n\n\n  - { id: b, limits: 1/s }\n"),
	)
	if want := "b.yaml:5:11: rules[1].id: \"b\": want an id that no other rule has; a.yaml:3 has the same value\n"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
