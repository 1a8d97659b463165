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
	// Finish ends a request that was let pass, at a time since its case began: what the response says is settled, and what
	// it held is free again. It gets headers of the response by name, in any case. Nil if who decides cannot do that; then
	// steps that say for or response fail.
	Finish func(at time.Duration, response func(header string) string) error
}

// Decide decides a request at a time since its case began. Times never go back, those of Answer.Finish included.
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
// begins with nothing consumed. An error is one of start; an error of a decision is a failure. The file is one that was
// parsed.
func (f *File) Run(set *rules.Set, start func() (Decide, error)) ([]Result, error) {
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
	made := &Failure{File: f.file.Name, Got: got, Want: want}
	made.Line, made.Column = f.file.Locate(path)
	return made
}

func (f *File) matches(set *rules.Set, c *Case, path string) (*Failure, error) {
	if c.Matches == nil {
		return nil, nil
	}
	request, err := subject(f.id, c.Request)
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
	return f.failure(path+".matches", listed(got), listed(*c.Matches)), nil
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
	var open flights
	for i := range c.Steps {
		s := &c.Steps[i]
		here := path + ".steps[" + strconv.Itoa(i) + "]"
		if s.At != nil {
			now = *s.At
		}
		attributes := maps.Clone(c.Request)
		maps.Copy(attributes, s.Request)
		request, err := subject(f.id, attributes)
		if err != nil {
			return []Failure{*f.failure(here, "a request that cannot be: "+err.Error(), string(s.Expect))}
		}
		times := max(s.Times, 1)
		for n := range times {
			which := ""
			if times > 1 {
				which = "the " + strconv.Itoa(n+1) + ". of " + strconv.Itoa(times) + ": "
			}
			if err := open.land(now); err != nil {
				return []Failure{*f.failure(here, which+"an error: "+err.Error(), string(s.Expect))}
			}
			a, err := decide(now, request)
			if err != nil {
				return []Failure{*f.failure(here, which+"an error: "+err.Error(), string(s.Expect))}
			}
			if field, got, want := s.differs(a, n == times-1); want != "" {
				return []Failure{*f.failure(here+field, which+got, want)}
			}
			if a.Finish == nil && (s.For != nil || s.Response != nil) {
				return []Failure{*f.failure(here, which+"a request whose end is not known here", "no for and no response")}
			}
			open.start(s, now, &a)
		}
	}
	return nil
}

// flights are requests that were let pass and have not ended, in the order in which they will.
type flights []flight

type flight struct {
	until    time.Duration
	response Response
	finish   func(time.Duration, func(string) string) error
}

// start adds the request of a step that was decided at a time.
func (o *flights) start(s *Step, now time.Duration, a *Answer) {
	if a.Finish == nil {
		return
	}
	made := flight{until: now + a.Delay, response: s.Response, finish: a.Finish}
	if s.For != nil {
		made.until += *s.For
	}
	at := len(*o)
	for at > 0 && (*o)[at-1].until > made.until {
		at--
	}
	*o = slices.Insert(*o, at, made)
}

// land ends the requests that are over by a time.
func (o *flights) land(now time.Duration) error {
	for len(*o) > 0 && (*o)[0].until <= now {
		over := (*o)[0]
		*o = (*o)[1:]
		if err := over.finish(over.until, func(header string) string { return over.response[strings.ToLower(header)] }); err != nil {
			return err
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
