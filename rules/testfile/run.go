package testfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
)

// An Answer is what was decided about a request.
type Answer struct {
	Verdict    Verdict
	Rule       string // the id of the rule that decided
	Remaining  int64
	RetryAfter time.Duration
	Delay      time.Duration
	Status     int
}

// Decide decides a request at a time since its case began. Times never go back.
type Decide func(at time.Duration, request rules.Subject) (Answer, error)

// A Result is what came of one case.
type Result struct {
	// Case is its name.
	Case string
	// Failures are what was not as expected. After a step that failed the others are not tried: they follow from it.
	Failures []Failure
}

// A Failure is one thing that was not as expected.
type Failure struct {
	// File, Line and Column are where the expectation stands.
	File         string
	Line, Column int
	// Got and Want are what was decided and what should have been.
	Got, Want string
}

func (f Failure) String() string {
	return f.File + ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column) + ": got " + f.Got + ", want " + f.Want
}

// Run tries all cases: what matches by the set, and what is decided by what start returns, which is called once a case and
// begins with nothing consumed. An error is one of start; an error of a decision is a failure.
func (f *File) Run(set *rules.Set, start func() (Decide, error)) ([]Result, error) {
	results := make([]Result, 0, len(f.Cases))
	for i := range f.Cases {
		c := &f.Cases[i]
		r := Result{Case: c.Name}
		path := "cases[" + strconv.Itoa(i) + "]"
		if failure := f.matches(set, c, path); failure != nil {
			r.Failures = append(r.Failures, *failure)
		}
		if len(c.Steps) > 0 {
			decide, err := start()
			if err != nil {
				return results, err
			}
			r.Failures = append(r.Failures, f.steps(c, path, decide)...)
		}
		results = append(results, r)
	}
	return results, nil
}

func (f *File) failure(path, got, want string) *Failure {
	made := &Failure{File: f.file.Name, Got: got, Want: want}
	made.Line, made.Column = f.file.Locate(path)
	return made
}

func (f *File) matches(set *rules.Set, c *Case, path string) *Failure {
	if c.Matches == nil {
		return nil
	}
	var got []string
	for _, m := range set.Match(c.Request, nil) {
		got = append(got, m.Rule.ID)
	}
	if slices.Equal(got, *c.Matches) {
		return nil
	}
	return f.failure(path+".matches", listed(got), listed(*c.Matches))
}

func listed(ids []string) string {
	if len(ids) == 0 {
		return "no rule"
	}
	return strings.Join(ids, ", ")
}

// steps tries steps until one fails.
func (f *File) steps(c *Case, path string, decide Decide) []Failure {
	var now time.Duration
	for i := range c.Steps {
		s := &c.Steps[i]
		here := path + ".steps[" + strconv.Itoa(i) + "]"
		if s.At != nil {
			now = *s.At
		}
		request := c.Request
		if len(s.Request) > 0 {
			request = maps.Clone(c.Request)
			maps.Copy(request, s.Request)
		}
		times := max(s.Times, 1)
		for n := range times {
			which := ""
			if times > 1 {
				which = "the " + strconv.Itoa(n+1) + ". of " + strconv.Itoa(times) + ": "
			}
			a, err := decide(now, request)
			if err != nil {
				return []Failure{*f.failure(here, which+"an error: "+err.Error(), string(s.Expect))}
			}
			if field, got, want := s.differs(a, n == times-1); want != "" {
				return []Failure{*f.failure(here+field, which+got, want)}
			}
		}
	}
	return nil
}

// differs returns the first thing in which an answer is not as expected. What remains is looked at in the last one only.
func (s *Step) differs(a Answer, last bool) (field, got, want string) {
	switch {
	case a.Verdict != s.Expect:
		got = string(a.Verdict)
		if a.Rule != "" {
			got += " by " + a.Rule
		}
		return ".expect", got, string(s.Expect)
	case s.By != "" && a.Rule != s.By:
		return ".by", "rule " + rules.Quote(a.Rule), "rule " + rules.Quote(s.By)
	case s.Remaining != nil && last && a.Remaining != *s.Remaining:
		return ".remaining", strconv.FormatInt(a.Remaining, 10) + " remaining", strconv.FormatInt(*s.Remaining, 10)
	case s.RetryAfter != nil && a.RetryAfter != *s.RetryAfter:
		return ".retry_after", "retry after " + a.RetryAfter.String(), formatTime(*s.RetryAfter)
	case s.Delay != nil && a.Delay != *s.Delay:
		return ".delay", "delay " + a.Delay.String(), formatTime(*s.Delay)
	case s.Status != 0 && a.Status != s.Status:
		return ".status", "status " + strconv.Itoa(a.Status), strconv.Itoa(s.Status)
	}
	return "", "", ""
}
