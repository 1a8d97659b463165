package tryrules

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
)

func (p *program) testCommand() *cobra.Command {
	var out output.Format
	var rulesPath string
	var verbose bool
	c := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run test files for rules",
		Long: `Run test files for rules. A test file has requests and the expected decisions:

  rules: rules.yaml
  cases:
    - name: two searches a second for each user
      request: { method: GET, path: /search/cats, user: alice }
      matches: [search-per-user]
      steps:
        - { times: 2, expect: allow }
        - { expect: reject, by: search-per-user, retry_after: 500ms }
        - { at: 500ms, expect: allow }

Time is simulated, so that tests do not wait, and each case starts with empty counters.
The exit code is 0 if all cases pass, else 1.`,
		Example: `  headgate rules test rules_test.yaml
  headgate rules test -v --rules candidate.yaml tests/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return p.test(args, rulesPath, verbose, out) },
	}
	output.AddFlag(c, &out)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "list all cases, not only those that fail")
	c.Flags().StringVar(&rulesPath, "rules", "", "rules `FILE` to test instead of those that the test files name")
	return c
}

func (p *program) test(names []string, rulesPath string, verbose bool, out output.Format) error {
	results := make([]rulesfile.TestResult, len(names))
	failed := false
	for i, name := range names {
		results[i] = rulesfile.Test(name, rulesPath)
		failed = failed || !results[i].OK
		if out == output.Table {
			p.printTestResult(&results[i], verbose)
		}
	}
	if out != output.Table {
		if err := p.Show(out, results, nil, nil); err != nil {
			return err
		}
	} else if len(results) > 1 {
		p.printTestTotal(results)
	}
	if failed {
		return cli.ExitError(cli.ExitFailure)
	}
	return nil
}

func (p *program) printTestResult(t *rulesfile.TestResult, verbose bool) {
	for _, c := range t.Cases {
		switch {
		case !c.OK:
			p.Printf("--- FAIL: %s\n", c.Name)
			for _, f := range c.Failures {
				p.Printf("    %s\n", f.Text)
			}
		case verbose:
			p.Printf("--- PASS: %s\n", c.Name)
		}
	}
	name := filepath.ToSlash(t.File)
	switch {
	case t.Error != "":
		_, _ = fmt.Fprintln(p.Stderr, t.Error)
		p.Printf("FAIL  %s  could not be run\n", name)
	case t.OK:
		p.Printf("ok    %s  %s  %.3fs\n", name, output.Plural(t.Passed, "case"), t.Duration.Seconds())
	default:
		p.Printf("FAIL  %s  %d of %s failed\n", name, t.Failed, output.Plural(len(t.Cases), "case"))
	}
}

func (p *program) printTestTotal(results []rulesfile.TestResult) {
	failedFiles, passed, failed := 0, 0, 0
	for _, r := range results {
		passed += r.Passed
		failed += r.Failed
		if !r.OK {
			failedFiles++
		}
	}
	if failedFiles == 0 {
		p.Printf("ok    %s in %s\n", output.Plural(passed, "case"), output.Plural(len(results), "file"))
		return
	}
	p.Printf("FAIL  %d of %s; %d of %s failed\n",
		failedFiles, output.Plural(len(results), "file"), failed, output.Plural(passed+failed, "case"))
}
