package limittest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// A want is the expected outcome of one decision.
type want struct {
	err     error // if it is not nil, the other fields are empty
	allowed bool
	fields  []wantField
}

type wantField struct {
	name  string
	value int64 // units, or ns
}

// fields are the fields of a decision that an outcome can have, by their names in scripts.
var fields = map[string]struct {
	get    func(headgate.Decision) int64
	isTime bool
}{
	"remaining": {func(d headgate.Decision) int64 { return d.Remaining }, false},
	"limit":     {func(d headgate.Decision) int64 { return d.Limit }, false},
	"units":     {func(d headgate.Decision) int64 { return d.Receipt.Units }, false},
	"retry":     {func(d headgate.Decision) int64 { return int64(d.RetryAfter) }, true},
	"reset":     {func(d headgate.Decision) int64 { return int64(d.ResetAfter) }, true},
	"delay":     {func(d headgate.Decision) int64 { return int64(d.Delay) }, true},
}

var errorsByName = map[string]error{
	"invalid-check": headgate.ErrInvalidCheck,
	"invalid-limit": headgate.ErrInvalidLimit,
	"unsupported":   headgate.ErrUnsupported,
}

// parseWants parses the outcomes of a step.
func parseWants(text string, hasOutcomes bool, s *step) ([]want, error) {
	decides := s.verb != "give" && s.verb != "reset"
	if !hasOutcomes {
		if decides {
			return nil, fmt.Errorf(`%s without "-> OUTCOME"`, s.verb)
		}
		return nil, nil
	}
	var wants []want
	for part := range strings.SplitSeq(text, " and ") {
		w, err := parseWant(strings.Fields(part))
		if err != nil {
			return nil, err
		}
		if !decides && w.err == nil {
			return nil, fmt.Errorf("%s has no decision: want error=NAME", s.verb)
		}
		wants = append(wants, w)
	}
	if failed := len(wants) == 1 && wants[0].err != nil; !failed && len(wants) != len(s.checks) {
		return nil, fmt.Errorf("%d outcomes for %d checks", len(wants), len(s.checks))
	}
	return wants, nil
}

// parseWant parses the outcome of one check.
func parseWant(words []string) (want, error) {
	var w want
	if len(words) == 0 {
		return w, fmt.Errorf("no outcome")
	}
	if name, ok := strings.CutPrefix(words[0], "error="); ok {
		if w.err = errorsByName[name]; w.err == nil {
			return w, fmt.Errorf("unknown error %q", name)
		}
		if len(words) > 1 {
			return w, fmt.Errorf("unexpected %q after an error", words[1])
		}
		return w, nil
	}
	switch words[0] {
	case "allow":
		w.allowed = true
	case "deny":
	default:
		return w, fmt.Errorf("unknown outcome %q: want allow, deny or error=NAME", words[0])
	}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		field, known := fields[name]
		if !known {
			return w, fmt.Errorf("unknown field %q: want remaining, retry, reset, delay, limit or units", word)
		}
		f := wantField{name: name}
		var err error
		switch {
		case name == "retry" && value == "never":
			f.value = int64(headgate.Never)
		case field.isTime:
			var d time.Duration
			d, err = parseTime(value)
			f.value = int64(d)
		default:
			if f.value, err = strconv.ParseInt(value, 10, 64); err != nil {
				err = fmt.Errorf("%s %q: want a whole number", name, value)
			}
		}
		if err != nil {
			return w, err
		}
		w.fields = append(w.fields, f)
	}
	return w, nil
}

// match compares a decision with the expected outcome.
func (w want) match(d headgate.Decision) error {
	var wrong []error
	if d.Allowed != w.allowed {
		wrong = append(wrong, fmt.Errorf("got %s, want %s", outcome(d.Allowed), outcome(w.allowed)))
	}
	for _, f := range w.fields {
		if got := fields[f.name].get(d); got != f.value {
			wrong = append(wrong, fmt.Errorf("got %s=%s, want %s", f.name, show(f.name, got), show(f.name, f.value)))
		}
	}
	return errors.Join(wrong...)
}

func outcome(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}

func show(field string, value int64) string {
	switch {
	case !fields[field].isTime:
		return strconv.FormatInt(value, 10)
	case value == int64(headgate.Never):
		return "never"
	default:
		return time.Duration(value).String()
	}
}
