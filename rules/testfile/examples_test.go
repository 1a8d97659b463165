package testfile_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/testfile"
)

const examples = "../../examples/rules"

// decider returns who decides by a set, at times that are said.
func decider(set *rules.Set) (testfile.Decide, error) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin
	e, err := engine.New(engine.Config{Rules: set, Store: stepstore.New(func() time.Time { return now })})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(at time.Duration, request rules.Subject) (testfile.Answer, error) {
		now = begin.Add(at)
		v := &engine.Verdict{}
		if err := e.Decide(ctx, request, v); err != nil {
			return testfile.Answer{}, err
		}
		a := testfile.Answer{
			Verdict: testfile.Verdict(v.Action.String()), Remaining: v.Decision.Remaining,
			RetryAfter: v.RetryAfter, Delay: v.Delay, Status: v.Status,
		}
		if v.Rule != nil {
			a.Rule = v.Rule.ID
		}
		if v.Action.Passes() {
			a.Finish = func(at time.Duration, response func(string) string) error {
				now = begin.Add(at)
				return v.Settle(ctx, response)
			}
		}
		return a, nil
	}, nil
}

func TestExamplesOfRulesDoWhatTheirTestsSay(t *testing.T) {
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
			results, err := tests.Run(set, func() (testfile.Decide, error) { return decider(set) })
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

// untried returns the rules in force that no case says it matches.
func untried(set *rules.Set, tests *testfile.File) []string {
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
