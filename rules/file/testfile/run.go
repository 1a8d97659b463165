package testfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A Decision is the engine's decision on a request.
type Decision struct {
	Verdict    Verdict
	Rule       string // the id of the rule that decided
	Remaining  int64
	RetryAfter time.Duration
	Delay      time.Duration
	Status     int
	// Finish ends an allowed request. It settles the cost that the response states, and releases slots. at is the time
	// since the case began. response returns a header by its case-insensitive name. If Finish is nil, steps with for or
	// response fail.
	Finish func(at time.Duration, response func(header string) string) error
}

// Decide decides a request. at is the time since the case began. The times of all calls of Decide and Decision.Finish
// never decrease.
type Decide func(at time.Duration, request rules.Subject) (Decision, error)

// A Result is the result of one case.
type Result struct {
	// Case is the name of the case.
	Case string
	// Failures are the unmet expectations. The steps after a failed step are not run.
	Failures []Failure
}

// A Failure is one unmet expectation.
type Failure struct {
	// File, Line and Column are the position of the expectation.
	File         string
	Line, Column int
	// Got and Want are the actual and the expected result.
	Got, Want string
}

func (f Failure) String() string {
	return f.File + ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column) + ": got " + f.Got + ", want " + f.Want
}

// Run runs all cases of a file that Parse or Load returned. It matches requests with the set. For each case with steps
// it calls start, which returns a function that decides the requests of this case and has empty counters. An error of
// start ends the run; an error of a decision is a failure of the case.
func (f *File) Run(set *match.Set, start func() (Decide, error)) ([]Result, error) {
	results := make([]Result, 0, len(f.Cases))
	for i := range f.Cases {
		c := &f.Cases[i]
		r := Result{Case: c.Name}
		path := "cases[" + strconv.Itoa(i) + "]"
		failure, err := f.matches(set, c, path)
		if err != nil {
			return results, err
		}
		if failure != nil {
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
	failure := &Failure{File: f.file.Name, Got: got, Want: want}
	failure.Line, failure.Column = f.file.Locate(path)
	return failure
}

// matches compares the rules that match the request of a case with the expected ones.
func (f *File) matches(set *match.Set, c *Case, path string) (*Failure, error) {
	if c.Matches == nil {
		return nil, nil
	}
	request, err := newTestRequest(f.id, c.Request)
	if err != nil {
		return nil, err
	}
	var got []string
	for _, m := range set.Match(request, nil) {
		got = append(got, m.Rule.ID)
	}
	if slices.Equal(got, *c.Matches) {
		return nil, nil
	}
	return f.failure(path+".matches", formatIDs(got), formatIDs(*c.Matches)), nil
}

func formatIDs(ids []string) string {
	if len(ids) == 0 {
		return "no rule"
	}
	return strings.Join(ids, ", ")
}

// steps runs steps until one fails.
func (f *File) steps(c *Case, path string, decide Decide) []Failure {
	var now time.Duration
	var open inFlight
	for i := range c.Steps {
		s := &c.Steps[i]
		stepPath := path + ".steps[" + strconv.Itoa(i) + "]"
		if s.At != nil {
			now = *s.At
		}
		attributes := maps.Clone(c.Request)
		maps.Copy(attributes, s.Request)
		request, err := newTestRequest(f.id, attributes)
		if err != nil {
			return []Failure{*f.failure(stepPath, "an invalid request: "+err.Error(), string(s.Expect))}
		}
		times := max(s.Times, 1)
		for n := range times {
			detail := ""
			if times > 1 {
				detail = "request " + strconv.Itoa(n+1) + " of " + strconv.Itoa(times) + ": "
			}
			if err := open.finish(now); err != nil {
				return []Failure{*f.failure(stepPath, detail+"an error: "+err.Error(), string(s.Expect))}
			}
			d, err := decide(now, request)
			if err != nil {
				return []Failure{*f.failure(stepPath, detail+"an error: "+err.Error(), string(s.Expect))}
			}
			if field, got, want := s.difference(d, n == times-1); want != "" {
				return []Failure{*f.failure(stepPath+field, detail+got, want)}
			}
			if d.Finish == nil && (s.For != nil || s.Response != nil) {
				return []Failure{*f.failure(stepPath, detail+"a request that cannot be finished here", "no for and no response")}
			}
			open.start(s, now, &d)
		}
	}
	return nil
}

// inFlight holds the allowed requests that have not ended, ordered by their end.
type inFlight []inFlightRequest

type inFlightRequest struct {
	until    time.Duration
	response Response
	finish   func(time.Duration, func(string) string) error
}

// start adds the request of a step that was decided at now.
func (o *inFlight) start(s *Step, now time.Duration, d *Decision) {
	if d.Finish == nil {
		return
	}
	started := inFlightRequest{until: now + d.Delay, response: s.Response, finish: d.Finish}
	if s.For != nil {
		started.until += *s.For
	}
	at := len(*o)
	for at > 0 && (*o)[at-1].until > started.until {
		at--
	}
	*o = slices.Insert(*o, at, started)
}

// finish finishes the requests that end by a time.
func (o *inFlight) finish(now time.Duration) error {
	for len(*o) > 0 && (*o)[0].until <= now {
		ended := (*o)[0]
		*o = (*o)[1:]
		header := func(name string) string { return ended.response[strings.ToLower(name)] }
		if err := ended.finish(ended.until, header); err != nil {
			return err
		}
	}
	return nil
}

// difference returns the first difference between a decision and the expectations. It compares Remaining only if last
// is true.
func (s *Step) difference(d Decision, last bool) (field, got, want string) {
	switch {
	case d.Verdict != s.Expect:
		got = string(d.Verdict)
		if d.Rule != "" {
			got += " by " + d.Rule
		}
		return ".expect", got, string(s.Expect)
	case s.By != "" && d.Rule != s.By:
		return ".by", "rule " + rules.Quote(d.Rule), "rule " + rules.Quote(s.By)
	case s.Remaining != nil && last && d.Remaining != *s.Remaining:
		return ".remaining", strconv.FormatInt(d.Remaining, 10) + " remaining", strconv.FormatInt(*s.Remaining, 10)
	case s.RetryAfter != nil && d.RetryAfter != *s.RetryAfter:
		return ".retry_after", "retry after " + d.RetryAfter.String(), formatTime(*s.RetryAfter)
	case s.Delay != nil && d.Delay != *s.Delay:
		return ".delay", "delay " + d.Delay.String(), formatTime(*s.Delay)
	case s.Status != 0 && d.Status != s.Status:
		return ".status", "status " + strconv.Itoa(d.Status), strconv.Itoa(s.Status)
	}
	return "", "", ""
}
