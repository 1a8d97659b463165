package api

import (
	"bytes"
	"encoding/json"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// A difference is what becomes of an object.
type difference struct {
	Kind   control.Kind    `json:"kind"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // create, update or delete
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Text is how they differ as YAML, for people.
	Text string `json:"text,omitempty"`
}

// What becomes of objects.
const (
	creates = "create"
	updates = "update"
	deletes = "delete"
)

// action returns what happens to an object that is not there if its body is nil.
func action(before, after []byte) string {
	switch {
	case before == nil:
		return creates
	case after == nil:
		return deletes
	default:
		return updates
	}
}

// maxDifferences is how many differences are shown with what is in them; of more there is but a list.
const maxDifferences = 1000

// differ returns what becomes of objects, of which there are several.
func differ(kind control.Kind, id string, before, after []byte, several int) difference {
	d := difference{Kind: kind, ID: id, Action: action(before, after)}
	if several <= maxDifferences {
		d.Before, d.After, d.Text = before, after, unified(kind, id, before, after)
	}
	return d
}

// unified returns how two bodies differ as YAML. Empty if they do not.
func unified(kind control.Kind, id string, before, after []byte) string {
	name := string(kind) + " " + id
	text := diff.Diff(name, yamlOf(kind, before), name, yamlOf(kind, after))
	_, text, _ = bytes.Cut(text, []byte("\n")) // a line for programs
	return string(text)
}

// yamlOf returns a body as people write it. One that cannot be read is shown as it is.
func yamlOf(kind control.Kind, body []byte) []byte {
	if body == nil {
		return nil
	}
	switch kind {
	case control.KindRule:
		if r, err := control.ParseRule(body); err == nil {
			return file.RuleYAML(&r)
		}
	case control.KindClient:
		if c, err := control.ParseClient(body); err == nil {
			return file.ClientYAML(&c)
		}
	}
	f, err := source.Read("body.json", body)
	if err != nil || f.Root == nil {
		return append(bytes.Clone(body), '\n')
	}
	return source.YAML(f.Root)
}
