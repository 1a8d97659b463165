package edit

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// A Difference is the difference between two versions of an object.
type Difference struct {
	Kind   control.Kind    `json:"kind"`
	ID     string          `json:"id"`
	Action string          `json:"action"` // create, update or delete
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Text is a unified diff of the object in YAML.
	Text string `json:"text,omitempty"`
}

// Action returns "create", "update" or "delete". A body is nil if the object does not exist.
func Action(before, after []byte) string {
	switch {
	case before == nil:
		return "create"
	case after == nil:
		return "delete"
	default:
		return "update"
	}
}

// maxDetailed is the maximum number of differences for which Differences sets bodies and texts. Beyond it, no
// difference has them, to bound the size of a response.
const maxDetailed = 1000

// Differences returns the description of each delta.
func Differences(deltas []Delta) []Difference {
	list := make([]Difference, len(deltas))
	for i, d := range deltas {
		list[i] = Difference{Kind: d.Kind, ID: d.ID, Action: Action(d.Before, d.After)}
		if len(deltas) <= maxDetailed {
			list[i].Before, list[i].After = d.Before, d.After
			list[i].Text = unifiedDiff(d.Kind, d.ID, d.Before, d.After)
		}
	}
	return list
}

// joinTexts concatenates the texts of differences.
func joinTexts(list []Difference) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].Text)
	}
	return b.String()
}

// unifiedDiff returns a unified diff of two bodies in YAML, empty if they are equal.
func unifiedDiff(kind control.Kind, id string, before, after []byte) string {
	name := string(kind) + " " + id
	text := diff.Diff(name, toYAML(kind, before), name, toYAML(kind, after))
	_, text, _ = bytes.Cut(text, []byte("\n")) // without the line "diff …"
	return string(text)
}

// toYAML returns a body in YAML. It returns a body that it cannot parse as it is, with a newline.
func toYAML(kind control.Kind, body []byte) []byte {
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
