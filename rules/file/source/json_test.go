package source_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/rules/file/source"
)

// plain returns what encoding/json would make of a node.
func plain(n *source.Node) any {
	switch n.Kind {
	case source.Null:
		return nil
	case source.List:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = plain(item)
		}
		return list
	case source.Map:
		fields := make(map[string]any, len(n.Fields))
		for i := range n.Fields {
			fields[n.Fields[i].Name] = plain(n.Fields[i].Value)
		}
		return fields
	}
	switch {
	case n.Quoted:
		return n.Text
	case n.Text == "true" || n.Text == "false":
		return n.Text == "true"
	}
	return json.Number(n.Text)
}

// standard reads JSON as encoding/json does.
func standard(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	err := decoder.Decode(&v)
	return v, err
}

// JSON is read as encoding/json reads it, and anything else is refused.
func FuzzJSONAgreesWithTheStandardLibrary(f *testing.F) {
	for _, text := range []string{
		`{"a": 1, "b": [true, false, null, -1.5e3, "x\"y\\z\u00e9\ud83d\ude00\ud800"], "c": {}, "d": []}`, `"alone"`, ` 12 `, "null", "\ufeff{}",
		`{"a":1}x`, `{"a":1,}`, `[1 2]`, `{"a" "b"}`, `{"a":1,"a":2}`, `["\q"]`, `"unended`, `[`, ``, `tru`, `01`, "[\"a\tb\"]",
		strings.Repeat("[", 65) + strings.Repeat("]", 65), `{"é": "ü", "` + strings.Repeat("long ", 1000) + `": "\n"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := source.Read("a.json", text)
		text = bytes.TrimPrefix(text, []byte("\ufeff"))
		if !json.Valid(text) || !utf8.Valid(text) {
			if !errors.Is(err, source.ErrSyntax) {
				t.Fatalf("got %v for invalid JSON", err)
			}
			return
		}
		want, _ := standard(text)
		if err != nil {
			if !strings.Contains(err.Error(), "nested at most") && !strings.Contains(err.Error(), "each name once") && !strings.Contains(err.Error(), "at most 1000 fields") {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if v := plain(got.Root); !reflect.DeepEqual(v, want) {
			t.Fatalf("got %#v, want %#v", v, want)
		}
	})
}

// Decoded values stay unchanged when the memory of the nodes is reused.
func TestDecodedValuesOutliveTheirFile(t *testing.T) {
	t.Parallel()
	read := func(i int) settings {
		text := fmt.Sprintf(`{"name": "name-%d", "tags": ["a\n%d", "b-%d"], "inner": {"size": %d}}`, i, i, i, i)
		f, err := source.Read("a.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var made settings
		if found := codec().Decode(f, &made); found != nil {
			t.Fatal(found)
		}
		return made
	}
	made := make([]settings, 100)
	for i := range made {
		made[i] = read(i)
	}
	for i, got := range made {
		want := settings{
			Name: fmt.Sprint("name-", i), Tags: []string{fmt.Sprint("a\n", i), fmt.Sprint("b-", i)}, Inner: &inner{Size: int64(i)},
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}
