package source_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules/file/source"
)

// show formats a node with its position: kind@line:column.
func show(n *source.Node) string {
	place := fmt.Sprintf("@%d:%d", n.Line, n.Column)
	switch n.Kind {
	case source.List:
		var items []string
		for _, item := range n.Items {
			items = append(items, show(item))
		}
		return "[" + strings.Join(items, " ") + "]" + place
	case source.Map:
		var fields []string
		for _, f := range n.Fields {
			fields = append(fields, fmt.Sprintf("%s@%d:%d=%s", f.Name, f.Line, f.Column, show(f.Value)))
		}
		return "{" + strings.Join(fields, " ") + "}" + place
	case source.Null:
		return "null" + place
	}
	if n.Quoted {
		return fmt.Sprintf("%q", n.Text) + place
	}
	return n.Text + place
}

func TestNodesHavePositions(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"a.yaml", "a: 1\nb:\n  - x\n  - y: z\n", "{a@1:1=1@1:4 b@2:1=[x@3:5 {y@4:5=z@4:8}@4:5]@3:3}@1:1"},
		{"a.yaml", "é: {ü: [a, 'b', \"c\"]}\n", `{é@1:1={ü@1:5=[a@1:9 "b"@1:12 "c"@1:17]@1:8}@1:4}@1:1`},
		{"a.yaml", "a: &x {b: 1}\nc: *x\n", "{a@1:1={b@1:8=1@1:11}@1:7 c@2:1={b@1:8=1@1:11}@1:7}@1:1"},
		{"a.yaml", "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", "{a@1:1={b@1:8=1@1:11 c@1:14=2@1:17}@1:7 d@2:1={c@2:13=3@2:16 b@1:8=1@1:11}@2:4}@1:1"},
		{"a.yaml", "a: 0x10\nb: 1.50\nc: ~\nd: yes\ne: true\nf: .inf\n", "{a@1:1=0x10@1:4 b@2:1=1.50@2:4 c@3:1=null@3:4 d@4:1=yes@4:4 e@5:1=true@5:4 f@6:1=.inf@6:4}@1:1"},
		{"a.json", "{\"a\": 1,\n \"é\": [\"x\", null, true, -1.5e3]}", `{a@1:2=1@1:7 é@2:2=["x"@2:8 null@2:13 true@2:19 -1.5e3@2:25]@2:7}@1:1`},
		{"a.json", "\n\n  [\n{}\n]", "[{}@4:1]@3:3"},
		{"a", `{"a": "x\/y"}`, `{a@1:2="x/y"@1:7}@1:1`}, // JSON by content
		{"a", "a: b", "{a@1:1=b@1:4}@1:1"},
	} {
		f, err := source.Read(tt.name, []byte(tt.text))
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
		} else if got := show(f.Root); got != tt.want {
			t.Errorf("%q:\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestLocate(t *testing.T) {
	f, err := source.Read("a.yaml", []byte("a:\n  - b: 1\n    header.x: [u, v]\n    header: w\nc: d\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                   "1:1",
		"a":                  "1:1",
		"a[0]":               "2:5",
		"a[0].b":             "2:8",
		"a[0].b[0]":          "2:8", // a single value for a list
		"a[0].header.x[1]":   "3:19",
		"a[0].header":        "4:13",
		"a[0].header.y":      "4:13",
		"a[1]":               "1:1", // missing: the longest prefix that exists
		"a[x]":               "1:1",
		"c":                  "5:4",
		"nowhere.at.all[17]": "1:1",
	} {
		line, column := f.Locate(path)
		if got := fmt.Sprintf("%d:%d", line, column); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

// Any text is parsed or refused soon, and never crashes the process.
func TestHostileFilesAreRefusedSoon(t *testing.T) {
	n := 5000
	keys := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	var merges strings.Builder
	for i := range 60 {
		fmt.Fprintf(&merges, "a%d: &a%d {", i, i)
		for j := range 60 {
			fmt.Fprintf(&merges, "k%d-%d: v, ", i, j)
		}
		merges.WriteString("}\n")
	}
	merges.WriteString("all: {<<: [")
	for i := range 60 {
		fmt.Fprintf(&merges, "*a%d, ", i)
	}
	merges.WriteString("]}\n")
	for name, text := range map[string]string{
		"brackets":        strings.Repeat("[", n),
		"braces":          strings.Repeat("{a: ", n),
		"dashes":          strings.Repeat("- ", n) + "a",
		"question marks":  strings.Repeat("? ", n),
		"keys":            keys("k%d: v\n"),
		"keys in a list":  "- " + strings.ReplaceAll(keys("k%d: v\n"), "\n", "\n  "),
		"flow keys":       "{" + keys("k%d: v, ") + "}",
		"billion laughs":  laughs.String(),
		"anchors":         strings.Repeat("&a ", n),
		"tags":            strings.Repeat("!a ", n),
		"open quote":      "a: \"" + strings.Repeat("x\n", n),
		"merges":          "a: &a {b: 1}\nc: {" + strings.Repeat("<<: *a, ", n) + "}",
		"wide merges":     merges.String(),
		"json brackets":   `{"a": ` + strings.Repeat("[", n),
		"too large":       strings.Repeat("#", source.MaxYAML+1),
		"nested by alias": "a: &a {b: *a}",
	} {
		began := time.Now()
		file := "a.yaml"
		if strings.HasPrefix(name, "json") {
			file = "a.json"
		}
		_, err := source.Read(file, []byte(text))
		if name == "merges" || name == "keys in a list" { // valid or not, but soon
			err = errors.Join(err, source.ErrSyntax)
		}
		if !errors.Is(err, source.ErrSyntax) {
			t.Errorf("%s: got %v, want an error", name, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	f, err := source.Read("a.yaml", []byte("a: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := make([]source.Problem, source.MaxProblems+5)
	for i := range found {
		found[i] = source.Problem{Want: "something else", Line: 1, Column: 1}
	}
	kind := errors.New("kind")
	err = f.Error(found, 2, kind)
	var all *source.Error
	if !errors.As(err, &all) || len(all.Problems) != source.MaxProblems || all.More != 7 || !errors.Is(err, kind) {
		t.Errorf("got %v", err)
	}
	if !strings.HasSuffix(err.Error(), "a.yaml: and 7 more") {
		t.Errorf("got %s", err)
	}
	if f.Error(nil, 0, kind) != nil {
		t.Error("an error without problems")
	}
}

// A settings struct has every kind of field.
type settings struct {
	Name  string   `field:"name"`
	Count int      `field:"count"`
	Off   bool     `field:"on,not"`
	Tags  []string `field:"tags"`
	Inner *inner   `field:"inner"`
	Wait  wait     `field:"wait"`
	Notes string   // has no name in a file
}

type inner struct {
	Size int64 `field:"size"`
}

type wait time.Duration

func codec() *source.Codec {
	c := source.NewCodec()
	source.RegisterScalar(c, func(text string) (wait, error) { d, err := time.ParseDuration(text); return wait(d), err },
		func(w wait) string { return time.Duration(w).String() })
	return c
}

func TestEncodedValuesDecode(t *testing.T) {
	want := settings{Name: "yes", Count: -5, Off: true, Tags: []string{"", "a b", "- c", "#", "5", "é\n", "a: b"}, Inner: &inner{Size: 7}, Wait: wait(time.Minute)}
	for name, write := range map[string]func(*source.Node) []byte{"a.yaml": source.YAML, "a.json": source.JSON} {
		text := write(codec().Encode(want))
		if name == "a.json" && !json.Valid(text) {
			t.Errorf("not JSON: %s", text)
		}
		f, err := source.Read(name, text)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		var got settings
		if found := codec().Decode(f, &got); len(found) > 0 {
			t.Fatalf("%s\n%v", text, found)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %#v\nwant %#v", text, got, want)
		}
	}
}

func TestInvalidPartsAreLeftUnchanged(t *testing.T) {
	f, err := source.Read("a.yaml", []byte("name: [a]\ncount: x\non: 1\nnames: b\ninner: {size: 1.5}\nwait: soon\ntags: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := settings{Name: "before", Count: 3}
	found := codec().Decode(f, &got)
	if len(found) != 6 || got.Name != "before" || got.Count != 3 || len(got.Tags) != 1 {
		t.Errorf("got %+v, %v", got, found)
	}
}

// Without quotes, other YAML parsers read these names as booleans, null and numbers.
func TestYAMLQuotesNamesThatLookLikeOtherTypes(t *testing.T) {
	f, err := source.Read("x.json", []byte(`{"on":1,"Yes":2,"null":3,"7":4,"per_second":5}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "\"on\": 1\n\"Yes\": 2\n\"null\": 3\n\"7\": 4\nper_second: 5\n"
	if got := string(source.YAML(f.Root)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
