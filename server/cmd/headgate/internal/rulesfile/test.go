package rulesfile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/ruletest"
	"github.com/headgate/headgate/rules/file/testfile"
)

var errNoRulesFile = errors.New(`the test file names no rules file: write "rules: FILE" in it, or use --rules FILE`)

// A TestResult is the result of one test file.
type TestResult struct {
	File   string       `json:"file"`
	OK     bool         `json:"ok"`
	Cases  []CaseResult `json:"cases"`
	Error  string       `json:"error,omitempty"`
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`

	Duration time.Duration `json:"-"`
}

// A CaseResult is the result of one case.
type CaseResult struct {
	Name     string    `json:"name"`
	OK       bool      `json:"ok"`
	Failures []Failure `json:"failures,omitempty"`
}

// A Failure is one expectation that was not met.
type Failure struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Got    string `json:"got"`
	Want   string `json:"want"`

	Text string `json:"-"` // the other fields on one line
}

// Test runs a test file with the rules of the file rulesPath. If rulesPath is empty, the test file must name a rules
// file.
func Test(name, rulesPath string) TestResult {
	start := time.Now()
	t := TestResult{File: name, Cases: []CaseResult{}}
	results, err := run(name, rulesPath)
	for _, r := range results {
		c := CaseResult{Name: r.Case, OK: len(r.Failures) == 0}
		for _, f := range r.Failures {
			c.Failures = append(c.Failures, Failure{Line: f.Line, Column: f.Column, Got: f.Got, Want: f.Want, Text: f.String()})
		}
		if c.OK {
			t.Passed++
		} else {
			t.Failed++
		}
		t.Cases = append(t.Cases, c)
	}
	if err != nil {
		t.Error = err.Error()
	}
	t.OK = err == nil && t.Failed == 0
	t.Duration = time.Since(start)
	return t
}

func run(name, rulesPath string) ([]testfile.Result, error) {
	f, err := testfile.Load(name)
	if err != nil {
		return nil, err
	}
	if rulesPath == "" {
		if rulesPath = f.RulesPath(); rulesPath == "" {
			return nil, errNoRulesFile
		}
	}
	doc, err := file.Load(rulesPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if err != nil {
		return nil, err
	}
	set, err := doc.Compile()
	if err != nil {
		return nil, err
	}
	return f.Run(set, ruletest.Starter(set))
}
