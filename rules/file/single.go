package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// codec is the codec for single rules and clients. It is created only once, because creating it takes longer than
// decoding a rule.
var codec = sync.OnceValue(newCodec)

// ReadRule parses and validates one rule, which is written as in the list of a rules file. name is the name of the file
// in messages, and selects YAML or JSON as in Parse.
//
// The error is like that of Parse, but paths begin at the rule: "limits[0]".
func ReadRule(name string, data []byte) (rules.Rule, error) {
	var r rules.Rule
	err := readOne(name, data, &r, func() error { return rules.Validate([]rules.Rule{r}) })
	return r, err
}

// ReadClient parses one client, as ReadRule does for a rule. It does not check the client's limits against rules, as
// match.Set.Check does, nor its attributes against those of other clients, as registry.Registry.Put does.
func ReadClient(name string, data []byte) (rules.Client, error) {
	var c rules.Client
	err := readOne(name, data, &c, func() error { return nil })
	return c, err
}

func readOne(name string, data []byte, dst any, validate func() error) error {
	f, err := source.Read(name, data)
	if err != nil {
		return err
	}
	problems := codec().Decode(f, dst)
	if slices.ContainsFunc(problems, func(p source.Problem) bool { return p.Path == "" }) {
		return f.Error(problems, 0, rules.ErrInvalid) // the file is not a mapping, so there is nothing to validate
	}
	unlisted := 0            // the number of problems that are not in the list
	var invalid *rules.Error // validate returns no other errors
	if err := validate(); errors.As(err, &invalid) {
		unlisted = invalid.More
		for _, p := range invalid.Problems {
			p.Path = strings.TrimPrefix(strings.TrimPrefix(p.Path, "rules[0]"), ".")
			if source.Follows(p.Path, problems) {
				continue
			}
			problem := source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
			problem.Line, problem.Column = f.Locate(p.Path)
			problems = append(problems, problem)
		}
	}
	return f.Error(problems, unlisted, rules.ErrInvalid)
}

// RuleJSON formats one rule on one line. ReadRule parses it.
func RuleJSON(r *rules.Rule) []byte { return line(codec().Encode(*r)) }

// ClientJSON formats one client on one line. ReadClient parses it.
func ClientJSON(c *rules.Client) []byte { return line(codec().Encode(*c)) }

// RuleYAML formats one rule as YAML. ReadRule parses it.
func RuleYAML(r *rules.Rule) []byte { return source.YAML(codec().Encode(*r)) }

// ClientYAML formats one client as YAML. ReadClient parses it.
func ClientYAML(c *rules.Client) []byte { return source.YAML(codec().Encode(*c)) }

// line formats a node as JSON on one line.
func line(n *source.Node) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, source.JSON(n)); err != nil {
		panic("file: formatted invalid JSON: " + err.Error())
	}
	return b.Bytes()
}
