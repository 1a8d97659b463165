package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/ruletest"
	"github.com/headgate/headgate/rules/testfile"
)

// errNoRulesFile is when neither a test file nor the command line names the rules.
var errNoRulesFile = errors.New(`it names no rules file: write "rules: FILE" in it, or use --rules FILE`)

// A tested is what came of one test file.
type tested struct {
	File   string       `json:"file"`
	OK     bool         `json:"ok"`
	Cases  []testedCase `json:"cases"`
	Error  string       `json:"error,omitempty"`
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`

	took time.Duration
}

type testedCase struct {
	Name     string        `json:"name"`
	OK       bool          `json:"ok"`
	Failures []testFailure `json:"failures,omitempty"`
}

type testFailure struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Got    string `json:"got"`
	Want   string `json:"want"`

	text string
}

func (p *program) testCommand() *cobra.Command {
	var out format
	var rulesPath string
	var verbose bool
	c := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run test files: requests, and what should be decided",
		Long: `Run test files: requests, and what should be decided.

A test file stands beside the rules that it is about:

  rules: rules.yaml
  cases:
    - name: two searches a second for each user
      request: { method: GET, path: /search/cats, user: alice }
      matches: [search-per-user]
      steps:
        - { times: 2, expect: allow }
        - { expect: reject, by: search-per-user, retry_after: 500ms }
        - { at: 500ms, expect: allow }

Time is only pretended to pass, so tests take none, and each case begins with nothing consumed.
The exit code is 0 if all cases are as expected, else 1.`,
		Example: `  headgate rules test rules_test.yaml
  headgate rules test -v --rules candidate.yaml tests/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.test(args, rulesPath, verbose, out) },
	}
	formatFlag(c, &out)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "list all cases, not only those that fail")
	c.Flags().StringVar(&rulesPath, "rules", "", "rules `FILE` to test in place of those that the test files name")
	return c
}

func (p *program) test(names []string, rulesPath string, verbose bool, out format) error {
	results := make([]tested, len(names))
	failed := false
	for i, name := range names {
		begun := time.Now()
		results[i] = testFile(name, rulesPath)
		results[i].took = time.Since(begun)
		failed = failed || !results[i].OK
		if out == formatTable {
			p.sayTested(&results[i], verbose)
		}
	}
	if out != formatTable {
		if err := p.show(out, results, nil, nil); err != nil {
			return err
		}
	} else if len(results) > 1 {
		p.sayTotal(results)
	}
	if failed {
		return exitCodeError(exitError)
	}
	return nil
}

func testFile(name, rulesPath string) tested {
	t := tested{File: name, Cases: []testedCase{}}
	results, err := runTests(name, rulesPath)
	for _, r := range results {
		c := testedCase{Name: r.Case, OK: len(r.Failures) == 0}
		for _, f := range r.Failures {
			c.Failures = append(c.Failures, testFailure{Line: f.Line, Column: f.Column, Got: f.Got, Want: f.Want, text: f.String()})
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
	return t
}

func runTests(name, rulesPath string) ([]testfile.Result, error) {
	f, err := testfile.Load(name)
	if err != nil {
		return nil, err
	}
	if rulesPath == "" {
		if rulesPath = f.RulesPath(); rulesPath == "" {
			return nil, errNoRulesFile
		}
	}
	set, err := loadRules(rulesPath)
	if err != nil {
		return nil, err
	}
	return f.Run(set, ruletest.Start(set))
}

func (p *program) sayTested(t *tested, verbose bool) {
	for _, c := range t.Cases {
		switch {
		case !c.OK:
			p.say("--- FAIL: %s\n", c.Name)
			for _, f := range c.Failures {
				p.say("    %s\n", f.text)
			}
		case verbose:
			p.say("--- PASS: %s\n", c.Name)
		}
	}
	name := filepath.ToSlash(t.File)
	switch {
	case t.Error != "":
		_, _ = fmt.Fprintln(p.stderr, t.Error)
		p.say("FAIL  %s  could not be run\n", name)
	case t.OK:
		p.say("ok    %s  %s  %.3fs\n", name, number(t.Passed, "case"), t.took.Seconds())
	default:
		p.say("FAIL  %s  %d of %s failed\n", name, t.Failed, number(len(t.Cases), "case"))
	}
}

func (p *program) sayTotal(results []tested) {
	files, passed, failed := 0, 0, 0
	for _, r := range results {
		passed += r.Passed
		failed += r.Failed
		if !r.OK {
			files++
		}
	}
	if files == 0 {
		p.say("ok    %s in %s\n", number(passed, "case"), number(len(results), "file"))
		return
	}
	p.say("FAIL  %d of %s; %d of %s failed\n", files, number(len(results), "file"), failed, number(passed+failed, "case"))
}
