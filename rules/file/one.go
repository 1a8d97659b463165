package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// codec is one for all who read and write single rules and clients: making it takes longer than using it. It is read only.
var codec = sync.OnceValue(newCodec)

// ReadRule reads one rule, written as in the list of a file. The name is that of the text in messages, and tells YAML from
// JSON as in Parse. The rule has been validated on its own.
//
// The error is as that of Parse, with paths from the rule on: "limits[0]".
func ReadRule(name string, data []byte) (rules.Rule, error) {
	var r rules.Rule
	err := readOne(name, data, &r, func() error { return rules.Validate([]rules.Rule{r}) })
	return r, err
}

// ReadClient reads one client, as ReadRule does a rule. Whether its limits can be used under the rules is not asked here,
// nor whether its values are those of another: rules.Set.Check and rules.Registry.Put do.
func ReadClient(name string, data []byte) (rules.Client, error) {
	var c rules.Client
	err := readOne(name, data, &c, func() error { return nil })
	return c, err
}

func readOne(name string, data []byte, into any, validate func() error) error {
	f, err := source.Read(name, data)
	if err != nil {
		return err
	}
	defer f.Release()
	found := codec().Decode(f, into)
	if slices.ContainsFunc(found, func(p source.Problem) bool { return p.Path == "" }) {
		return f.Error(found, 0, rules.ErrInvalid) // it is no mapping at all
	}
	more := 0
	var invalid *rules.Error
	if err := validate(); errors.As(err, &invalid) {
		more = invalid.More
		for _, p := range invalid.Problems {
			p.Path = strings.TrimPrefix(strings.TrimPrefix(p.Path, "rules[0]"), ".")
			if source.Follows(p.Path, found) {
				continue
			}
			made := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
			made.Line, made.Column = f.Locate(p.Path)
			found = append(found, made)
		}
	}
	return f.Error(found, more, rules.ErrInvalid)
}

// RuleJSON writes one rule on one line. ReadRule reads it back.
func RuleJSON(r *rules.Rule) []byte { return line(codec().Encode(*r)) }

// ClientJSON writes one client on one line. ReadClient reads it back.
func ClientJSON(c *rules.Client) []byte { return line(codec().Encode(*c)) }

// RuleYAML writes one rule as it would stand in a file by itself.
func RuleYAML(r *rules.Rule) []byte { return source.YAML(codec().Encode(*r)) }

// ClientYAML writes one client as it would stand in a file by itself.
func ClientYAML(c *rules.Client) []byte { return source.YAML(codec().Encode(*c)) }

func line(n *source.Node) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, source.JSON(n)); err != nil {
		panic("file: wrote no JSON: " + err.Error())
	}
	return b.Bytes()
}
