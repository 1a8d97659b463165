package file_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
)

// Any file is parsed or refused with problems; a parsed one can be formatted and parsed again, and is valid by the
// schema.
func fuzzFile(f *testing.F, name string) {
	v := validator{root: readSchema(f)}
	for _, dir := range []string{"good", "bad"} {
		for _, path := range files(f, dir) {
			f.Add(read(f, path))
			if doc, err := file.Parse(path, read(f, path)); err == nil {
				f.Add(doc.JSON())
			}
		}
	}
	examples, err := filepath.Glob("../../examples/rules/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range examples {
		f.Add(read(f, path))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := file.Parse(name, data)
		if err != nil {
			var located *source.Error
			if !errors.As(err, &located) || len(located.Problems) == 0 || err.Error() == "" {
				t.Fatalf("an error without problems: %v", err)
			}
			return
		}
		if _, err := doc.Compile(); err != nil {
			t.Fatalf("parsed, but does not compile: %v", err)
		}
		if err := v.checkJSON(doc.JSON()); err != nil {
			t.Fatalf("written as\n%s\ndoes not fit the schema: %v", doc.JSON(), err)
		}
		for name, text := range map[string][]byte{"again.yaml": doc.YAML(), "again.json": doc.JSON()} {
			again, err := file.Parse(name, text)
			if err != nil {
				t.Fatalf("written as\n%s\n%v", text, err)
			}
			if !same(doc, again) {
				t.Fatalf("written as\n%s\n got %+v\nwant %+v", text, again, doc)
			}
		}
	})
}

func FuzzParseYAML(f *testing.F) { fuzzFile(f, "rules.yaml") }

func FuzzParseJSON(f *testing.F) { fuzzFile(f, "rules.json") }
