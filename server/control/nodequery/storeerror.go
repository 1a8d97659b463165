package nodequery

import (
	"fmt"
	"regexp"
	"strings"
)

// ruleError matches the engine's errors about one rule.
var ruleError = regexp.MustCompile(`^engine: (explain|reset the counters of) rule (\S+): (?s:(.*))$`)

// A failure describes the same error of several rules. format begins the message, and has a %s for the rules. It is
// empty if the error does not concern rules.
type failure struct{ format, reason string }

// StoreErrorText describes errors of stores for operators. It reports equal errors of several rules together. The log
// has the original errors.
func StoreErrorText(err error) string {
	var failures []failure
	rulesOf := map[failure][]string{}
	for _, one := range flatten(err) {
		rule, f := "", failure{reason: one.Error()}
		if m := ruleError.FindStringSubmatch(f.reason); m != nil {
			rule, f = m[2], failure{"what remains under %s is not known: ", m[3]}
			if m[1] != "explain" {
				f.format = "the consumption under %s was not reset: "
			}
		}
		f.reason = plainReason(f.reason)
		if _, known := rulesOf[f]; !known {
			failures = append(failures, f)
			rulesOf[f] = nil
		}
		if rule != "" {
			rulesOf[f] = append(rulesOf[f], rule)
		}
	}
	texts := make([]string, len(failures))
	for i, f := range failures {
		texts[i] = f.reason
		if f.format != "" {
			texts[i] = fmt.Sprintf(f.format, namesText(rulesOf[f])) + f.reason
		}
	}
	return strings.Join(texts, "; ")
}

// Errors that errors.Join returns implement joinedErrors.
type joinedErrors interface{ Unwrap() []error }

// flatten returns the errors that were joined by errors.Join.
func flatten(err error) []error {
	joined, ok := err.(joinedErrors)
	if !ok {
		return []error{err}
	}
	var list []error
	for _, one := range joined.Unwrap() {
		list = append(list, flatten(one)...)
	}
	return list
}

// systemError matches the system's message in an error, such as (dial tcp 127.0.0.1:6379: connect: connection refused).
var systemError = regexp.MustCompile(` \((dial|read|write|context) [^)]*\)`)

// plainReason returns the reason of an error of redisstore without names of packages and functions.
func plainReason(text string) string {
	if _, reason, ok := strings.Cut(text, "redisstore: "); ok {
		text = "Redis " + strings.Replace(reason, ": is ", " is ", 1)
	}
	return systemError.ReplaceAllString(text, "")
}

// namesText returns "the rule a", or "the rules a, b and 3 more".
func namesText(ids []string) string {
	const shown = 3
	switch {
	case len(ids) == 1:
		return "the rule " + ids[0]
	case len(ids) > shown:
		return fmt.Sprintf("the rules %s and %d more", strings.Join(ids[:shown], ", "), len(ids)-shown)
	}
	return "the rules " + strings.Join(ids, ", ")
}
