package file_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/testfile"
)

const (
	document  = "../../docs/rules.md"
	reference = "../../docs/reference/rules.md"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every file in the documentation is valid.
func TestDocumentationShowsFilesThatLoad(t *testing.T) {
	text := string(read(t, document))
	shown := 0
	for _, m := range yamlBlock.FindAllStringSubmatchIndex(text, -1) {
		block := text[m[2]:m[3]]
		line := strings.Count(text[:m[2]], "\n") + 1
		shown++
		if strings.Contains(block, "\ncases:") {
			if _, err := testfile.Parse("block.yaml", []byte(block)); err != nil {
				t.Errorf("%s:%d: %v", document, line, err)
			}
			continue
		}
		doc, err := file.Parse("block.yaml", []byte(block))
		if err != nil {
			t.Errorf("%s:%d: %v", document, line, err)
			continue
		}
		if len(doc.Rules) == 0 {
			t.Errorf("%s:%d: no rules", document, line)
		}
	}
	if blocks := strings.Count(text, "```yaml"); shown != blocks || shown < 5 {
		t.Errorf("%d of %d blocks were read", shown, blocks)
	}
}

func TestDocumentationNamesEveryField(t *testing.T) {
	text := string(read(t, document))
	tables := string(read(t, reference))
	for _, model := range []reflect.Type{
		reflect.TypeFor[file.Document](), reflect.TypeFor[rules.Rule](), reflect.TypeFor[rules.Override](), reflect.TypeFor[rules.Penalty](),
		reflect.TypeFor[rules.Client](), reflect.TypeFor[rules.ClientRule](), reflect.TypeFor[rules.Cost](), file.NamedLimit,
	} {
		for _, name := range file.Fields(model) {
			if !strings.Contains(tables, "`"+name+"`") {
				t.Errorf("%s: %s has no %s", model, reference, name)
			}
		}
	}
	_, steps, _ := strings.Cut(text, "## Test files")
	for _, model := range []reflect.Type{reflect.TypeFor[testfile.File](), reflect.TypeFor[testfile.Case](), reflect.TypeFor[testfile.Step]()} {
		for _, name := range file.Fields(model) {
			if !strings.Contains(steps, "`"+name+"`") && !strings.Contains(steps, name+":") {
				t.Errorf("%s: test files have no %s", model, name)
			}
		}
	}
	for kind := headgate.AttrIP; kind.String() != ""; kind++ {
		if !strings.Contains(text, "`"+kind.String()) {
			t.Errorf("no attribute %s", kind)
		}
	}
}

func TestDocumentationHasTheModesOfEveryAlgorithm(t *testing.T) {
	text := string(read(t, document))
	for _, algorithm := range headgate.Algorithms() {
		row := "| " + algorithm.String() + " |"
		for mode := rules.Exact; mode <= rules.Local; mode++ {
			if ok, _ := rules.Compatible(mode, algorithm); ok {
				row += " ✓ |"
			} else {
				row += " – |"
			}
		}
		if !strings.Contains(text, row+"\n") {
			t.Errorf("want the row %s", row)
		}
	}
}

// The message in the documentation is the one that is printed.
func TestDocumentationShowsTheRealMessage(t *testing.T) {
	_, err := file.Parse("rules.yaml", []byte(`rules:
  - id: search
    when: { path: /search/** }
    key: user
    on_limit: delay 2s
    limits: 10/s fixed-window
`))
	if err == nil {
		t.Fatal("no error")
	}
	if text := string(read(t, document)); !strings.Contains(text, "```text\n"+err.Error()+"\n```") {
		t.Errorf("the documentation does not show\n%s", err)
	}
}
