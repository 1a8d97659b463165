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
	More     int       `json:"more,omitempty"` // number of problems that are not in Problems
	// Warnings are about valid rules that may not have the intended effect.
	Warnings []Problem `json:"warnings,omitempty"`

	Err error `json:"-"` // all problems in one error; nil if OK is true
}

// A Problem is one error or warning.
type Problem struct {
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want,omitempty"`
}

// Lint checks a rules file, or stdin if name is "-". It cannot check whether a node has the stores that the rules need,
// because that depends on the configuration of the node.
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
	if warnings := rules.Warnings(doc.Rules); len(warnings) > 0 {
		text, err := source.Read(r.File, data)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			line, column := text.Locate(w.Path)
			r.Warnings = append(r.Warnings, Problem{Path: w.Path, Line: line, Column: column, Value: w.Value, Want: w.Want})
		}
	}
	r.Rules, r.Clients = len(doc.Rules), len(doc.Clients)
	return nil
}
