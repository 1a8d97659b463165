package testfile_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/ruletest"
	"github.com/headgate/headgate/rules/file/testfile"
	"github.com/headgate/headgate/rules/match"
)

const examples = "../../../examples/rules"

func TestExampleRulesPassTheirTests(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.yaml") {
			continue
		}
		tested++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			doc, err := file.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			set, err := doc.Compile()
			if err != nil {
				t.Fatal(err)
			}
			tests, err := testfile.Load(strings.TrimSuffix(path, ".yaml") + "_test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if got := tests.RulesPath(); got != path {
				t.Errorf("the tests are about %s, want %s", got, path)
			}
			results, err := tests.Run(set, ruletest.Starter(set))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				for _, failure := range r.Failures {
					t.Errorf("%s: %s", r.Case, failure)
				}
			}
			for _, id := range untried(set, tests) {
				t.Errorf("no case matches rule %s", id)
			}
		})
	}
	if tested < 5 {
		t.Errorf("%d examples, want at least 5", tested)
	}
}

// untried returns the rules in force that no case lists in matches.
func untried(set *match.Set, tests *testfile.File) []string {
	tried := map[string]bool{}
	for _, c := range tests.Cases {
		if c.Matches != nil {
			for _, id := range *c.Matches {
				tried[id] = true
			}
		}
		for _, s := range c.Steps {
			tried[s.By] = true
		}
	}
	var ids []string
	for _, r := range set.Rules() {
		if !tried[r.ID] {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
