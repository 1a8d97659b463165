package rulesfile

import (
	"errors"
	"io"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
)

// A LintResult is the result of Lint for one file.
type LintResult struct {
	File     string    `json:"file"`
	OK       bool      `json:"ok"`
	Rules    int       `json:"rules"`
	Clients  int       `json:"clients"`
	Problems []Problem `json:"problems"`
	More     int       `json:"more,omitempty"`
	// Warnings are about valid rules that may not do what their author intended.
	Warnings []Problem `json:"warnings,omitempty"`

	Err error `json:"-"` // all problems as one error; nil if OK
}

// A Problem is one error or warning.
type Problem struct {
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want,omitempty"`
}

// Lint checks a rules file, or stdin if name is "-". It does not check whether a node has the stores that the rules
// need: only the node knows its stores.
func Lint(name string, stdin io.Reader) LintResult {
	result := LintResult{File: name, Problems: []Problem{}}
	data, err := Read(name, stdin)
	if err == nil {
		err = result.lint(data)
	}
	if err == nil {
		result.OK = true
		return result
	}
	result.Err = err
	var invalid *source.Error
	if !errors.As(err, &invalid) {
		result.Problems = append(result.Problems, Problem{Value: err.Error()})
		return result
	}
	for _, p := range invalid.Problems {
		result.Problems = append(result.Problems,
			Problem{Path: p.Path, Line: p.Line, Column: p.Column, Value: p.Value, Want: p.Want})
	}
	result.More = invalid.More
	return result
}

// lint checks the content of the file, counts its rules and clients, and collects warnings.
func (r *LintResult) lint(data []byte) error {
	doc, err := file.Parse(r.File, data)
	if err != nil {
		return err
	}
	if _, err := doc.Compile(); err != nil {
		return err
	}
	if doubts := rules.Warnings(doc.Rules); len(doubts) > 0 {
		text, err := source.Read(r.File, data)
		if err != nil {
			return err
		}
		for _, d := range doubts {
			line, column := text.Locate(d.Path)
			r.Warnings = append(r.Warnings, Problem{Path: d.Path, Line: line, Column: column, Value: d.Value, Want: d.Want})
		}
	}
	r.Rules, r.Clients = len(doc.Rules), len(doc.Clients)
	return nil
}
