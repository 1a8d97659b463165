package testfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A File holds the cases of a test file. Parse and Load return one.
type File struct {
	// Rules is the path of the rules file, relative to the test file. By default the caller chooses it.
	Rules string `field:"rules"`
	// Cases are the test cases.
	Cases []Case `field:"cases"`

	file *source.File
	id   *identity.Identifier
}

// A Case is one request and the expected results.
type Case struct {
	// Name describes the case. It is unique.
	Name string `field:"name"`
	// Request holds the attributes of the request. They are normalized like those of a real request: dot segments of a
	// path are removed, an IPv6 address is counted by its network, and segment.<number> is read from the path.
	Request rules.Attributes `field:"request"`
	// Matches are the ids of all rules that match, in the order of the rules. By default they are not checked. An empty
	// list means that no rule matches.
	Matches *[]string `field:"matches"`
	// Steps are run in order.
	Steps []Step `field:"steps"`
}

// A Step is a request at a given time, and the expected decision. The request may be repeated.
type Step struct {
	// At is the time since the case began. Default is the time of the previous step.
	At *time.Duration `field:"at"`
	// Times is the number of repetitions. Default 1.
	Times int `field:"times"`
	// Request holds the differences from the case's request. An empty value removes an attribute.
	Request rules.Attributes `field:"request"`
	// For is how long an allowed request is in flight, for concurrency limits. By default it ends at once. Use 366d for a
	// request that never ends.
	For *time.Duration `field:"for"`
	// Response has the headers of the response, for rules that read their cost from it.
	Response Response `field:"response"`
	// Expect is the expected verdict.
	Expect Verdict `field:"expect"`
	// By is the id of the rule that decides. This and the following fields are not checked by default.
	By string `field:"by"`
	// Remaining is the number of remaining units after the request. If the request is repeated, it is checked only after
	// the last one.
	Remaining *int64 `field:"remaining"`
	// RetryAfter is the time after which a retry may succeed.
	RetryAfter *time.Duration `field:"retry_after"`
	// Delay is how long the request is delayed.
	Delay *time.Duration `field:"delay"`
	// Status is the HTTP status.
	Status int `field:"status"`
}

// A Response holds headers and their values. The names are in lower case.
type Response map[string]string

// A Verdict is the kind of a decision.
type Verdict string

// The verdicts.
const (
	Allow  Verdict = "allow"
	Reject Verdict = "reject"
	Delay  Verdict = "delay"
	Drop   Verdict = "drop"
)

// Bounds of a test file.
const (
	MaxCases = 10_000
	MaxSteps = 1000
	MaxTimes = 1_000_000
)

// Parse parses a test file, YAML or JSON. The error is a *source.Error that lists all problems.
func Parse(name string, data []byte) (*File, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	id, err := identity.New(identity.Config{Paths: identity.PathRules{
		EncodedSlash: identity.KeepSlash, Parameters: identity.KeepParameters,
	}})
	if err != nil {
		return nil, err
	}
	file := &File{file: f, id: id}
	problems := newCodec(id).Decode(f, file)
	problems = append(problems, file.validate(problems)...)
	if err := f.Error(problems, 0, rules.ErrInvalid); err != nil {
		return nil, err
	}
	return file, nil
}

// Load reads and parses a test file.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// RulesPath returns the path of the rules file, empty if the test file does not name it.
func (f *File) RulesPath() string {
	if f.Rules == "" || filepath.IsAbs(f.Rules) || f.file == nil {
		return f.Rules
	}
	return filepath.Join(filepath.Dir(f.file.Name), f.Rules)
}

func newCodec(id *identity.Identifier) *source.Codec {
	c := source.NewCodec()
	c.Explain = explain
	source.RegisterScalar(c, parseTime, formatTime)
	source.RegisterScalar(c, parseVerdict, func(v Verdict) string { return string(v) })
	source.RegisterNode(c, func(d *source.Decoder, n *source.Node, path string, into *rules.Attributes) {
		decodeRequest(id, d, n, path, into)
	}, nil)
	source.RegisterNode(c, decodeResponse, nil)
	return c
}

func decodeResponse(d *source.Decoder, n *source.Node, path string, dst *Response) {
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), "a mapping of headers, as in { X-Tokens-Used: 250 }")
		return
	}
	*dst = Response{}
	for i := range n.Fields {
		f := &n.Fields[i]
		name := strings.ToLower(f.Name)
		if _, duplicate := (*dst)[name]; duplicate {
			d.Refuse(&source.Node{Line: f.Line, Column: f.Column}, source.Join(path, f.Name),
				"a second "+name, "each header once")
		} else if f.Value.Kind != source.Scalar {
			d.Refuse(f.Value, source.Join(path, f.Name), f.Value.Kind.String(), "one value")
		} else {
			(*dst)[name] = f.Value.Text
		}
	}
}

// parseTime parses a time, which may be 0.
func parseTime(text string) (time.Duration, error) {
	if strings.Trim(text, "0") == "" || strings.Trim(text, "0") == "s" {
		return 0, nil
	}
	return rules.ParseDuration(text)
}

func formatTime(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	return rules.FormatDuration(d)
}

// errVerdict is the error for an unknown verdict.
var errVerdict = errors.New("unknown verdict")

func parseVerdict(text string) (Verdict, error) {
	switch v := Verdict(text); v {
	case Allow, Reject, Delay, Drop:
		return v, nil
	}
	return "", fmt.Errorf("%w %s", errVerdict, rules.Quote(text))
}

func explain(err error) (value, want string) {
	if errors.Is(err, errVerdict) {
		return err.Error(), "allow, reject, delay or drop"
	}
	return rules.Explain(err)
}

// decodeRequest decodes a mapping of attributes and their values.
func decodeRequest(id *identity.Identifier, d *source.Decoder, n *source.Node, path string, dst *rules.Attributes) {
	const want = "a mapping, as in { method: GET, path: /search, user: alice }"
	if n.Kind != source.Map {
		d.Refuse(n, path, n.Kind.String(), want)
		return
	}
	*dst = rules.Attributes{}
	for i := range n.Fields {
		f := &n.Fields[i]
		fieldPath := source.Join(path, f.Name)
		a, err := headgate.ParseAttribute(f.Name)
		if err != nil {
			_, want := rules.Explain(err)
			d.Refuse(&source.Node{Line: f.Line, Column: f.Column}, fieldPath, "unknown attribute", want)
			continue
		}
		if f.Value.Kind != source.Scalar {
			d.Refuse(f.Value, fieldPath, f.Value.Kind.String(), "one value")
			continue
		}
		if _, duplicate := (*dst)[a]; duplicate {
			d.Refuse(&source.Node{Line: f.Line, Column: f.Column}, fieldPath, "a second "+a.String(), "each attribute once")
			continue
		}
		if _, err := newTestRequest(id, rules.Attributes{a: f.Value.Text}); err != nil {
			_, want := rules.Explain(err)
			d.Refuse(f.Value, fieldPath, rules.Quote(f.Value.Text), want)
			continue
		}
		(*dst)[a] = f.Value.Text
	}
}

// validate returns the problems that decoding has not found. It omits problems that may be consequences of existing
// problems.
func (f *File) validate(existing []source.Problem) []source.Problem {
	var problems []source.Problem
	addProblem := func(path, value, want string) {
		if source.Follows(path, existing) {
			return
		}
		line, column := f.file.Locate(path)
		problems = append(problems, source.Problem{Path: path, Value: value, Want: want, Line: line, Column: column})
	}
	if len(f.Cases) == 0 {
		addProblem("cases", "", "at least one case")
	}
	if len(f.Cases) > MaxCases {
		addProblem("cases", strconv.Itoa(len(f.Cases)), "at most "+strconv.Itoa(MaxCases))
		return problems
	}
	names := map[string]bool{}
	for i := range f.Cases {
		c := &f.Cases[i]
		path := "cases[" + strconv.Itoa(i) + "]"
		if c.Name == "" {
			addProblem(path, "", "a name that says what the case tests")
		} else if names[c.Name] {
			addProblem(path+".name", rules.Quote(c.Name), "a name that no other case has")
		}
		names[c.Name] = true
		if len(c.Request) == 0 {
			addProblem(path, "", "a request, as in { method: GET, path: /search, user: alice }")
		}
		if c.Matches == nil && len(c.Steps) == 0 {
			addProblem(path, "", "matches, or steps, or both")
		}
		if len(c.Steps) > MaxSteps {
			addProblem(path+".steps", strconv.Itoa(len(c.Steps)), "at most "+strconv.Itoa(MaxSteps))
			continue
		}
		c.validateSteps(path, addProblem)
	}
	return problems
}

func (c *Case) validateSteps(path string, addProblem func(path, value, want string)) {
	var now time.Duration
	for i := range c.Steps {
		s := &c.Steps[i]
		stepPath := path + ".steps[" + strconv.Itoa(i) + "]"
		if s.At != nil {
			if *s.At < now {
				addProblem(stepPath+".at", formatTime(*s.At),
					"a time not earlier than "+formatTime(now)+", the time of the previous step")
			}
			now = *s.At
		}
		if s.Times < 0 || s.Times > MaxTimes {
			addProblem(stepPath+".times", strconv.Itoa(s.Times), "1 to "+strconv.Itoa(MaxTimes))
		}
		if s.Expect == "" {
			addProblem(stepPath, "", "expect: allow, reject, delay or drop")
		}
		if s.RetryAfter != nil && s.Expect == Allow {
			addProblem(stepPath+".retry_after", formatTime(*s.RetryAfter), "expect: reject; an allowed request has no retry")
		}
		if s.Delay != nil && s.Expect != Delay {
			addProblem(stepPath+".delay", formatTime(*s.Delay), "expect: delay")
		}
		if passes := s.Expect == Allow || s.Expect == Delay; s.Expect != "" && !passes {
			if s.For != nil {
				addProblem(stepPath+".for", formatTime(*s.For), "expect: allow; denied requests are not served")
			}
			if s.Response != nil {
				addProblem(stepPath+".response", "", "expect: allow; denied requests are not served")
			}
		}
	}
}
