package testfile_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/testfile"
	"github.com/headgate/headgate/rules/match"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n got %s\nwant %s", path, got, want)
	}
}

func load(t *testing.T, path string) (*testfile.File, *match.Set) {
	t.Helper()
	f, err := testfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := file.Load("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f, set
}

// bucket decides like token buckets of two per second for each user. It replaces an engine.
func bucket() (testfile.Decide, error) {
	type state struct {
		left int64
		at   time.Duration
	}
	users := map[string]*state{}
	return func(at time.Duration, request rules.Subject) (testfile.Decision, error) {
		name, _ := request.Get(headgate.Attribute{Kind: headgate.AttrUser})
		if name == "broken" {
			return testfile.Decision{}, errors.New("the store is away")
		}
		s := users[name]
		if s == nil {
			s = &state{left: 2}
			users[name] = s
		}
		s.left = min(2, s.left+int64((at-s.at)/(500*time.Millisecond)))
		s.at = at
		if s.left == 0 {
			return testfile.Decision{Verdict: testfile.Reject, Rule: "search-per-user", RetryAfter: 500 * time.Millisecond, Status: 429}, nil
		}
		s.left--
		return testfile.Decision{Verdict: testfile.Allow, Rule: "search-per-user", Remaining: s.left}, nil
	}, nil
}

func TestCasesThatHold(t *testing.T) {
	f, set := load(t, "testdata/cases.yaml")
	if got, want := f.RulesPath(), filepath.Join("testdata", "rules.yaml"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	results, err := f.Run(set, bucket)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 3 {
		t.Errorf("got %d results", len(results))
	}
	for _, r := range results {
		for _, failure := range r.Failures {
			t.Errorf("%s: %s", r.Case, failure)
		}
	}
}

func TestFailuresHavePositions(t *testing.T) {
	f, set := load(t, "testdata/failing.yaml")
	results, err := f.Run(set, bucket)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range results {
		if len(r.Failures) == 0 {
			t.Errorf("%s: did not fail", r.Case)
		}
		for _, failure := range r.Failures {
			fmt.Fprintf(&b, "%s: %s\n", r.Case, strings.ReplaceAll(failure.String(), "testdata/", ""))
		}
	}
	golden(t, "testdata/failing.yaml.txt", b.String())
}

func TestBadTestFilesAreRefused(t *testing.T) {
	_, err := testfile.Load("testdata/bad.yaml")
	if err == nil {
		t.Fatal("no error")
	}
	golden(t, "testdata/bad.yaml.txt", strings.ReplaceAll(err.Error(), "testdata/", "")+"\n")
	if _, err := testfile.Parse("empty.yaml", []byte("cases: []\n")); err == nil {
		t.Error("a file without cases is accepted")
	}
	if _, err := testfile.Load("testdata/nowhere.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorOfTheStartEndsTheRun(t *testing.T) {
	f, set := load(t, "testdata/cases.yaml")
	away := errors.New("no engine")
	if _, err := f.Run(set, func() (testfile.Decide, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"cases.yaml", "failing.yaml", "bad.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	set, err := match.Compile(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		made, err := testfile.Parse("cases.yaml", data)
		if err != nil {
			return
		}
		allow := func(time.Duration, rules.Subject) (testfile.Decision, error) {
			return testfile.Decision{Verdict: testfile.Allow}, errors.New("the first step fails")
		}
		if _, err := made.Run(set, func() (testfile.Decide, error) { return allow, nil }); err != nil {
			t.Error(err)
		}
	})
}
