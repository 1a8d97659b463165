package edit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// A NotFoundError means that an object to change does not exist.
type NotFoundError struct {
	Namespace string
	Kind      control.Kind
	ID        string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("There is no %s %s in the namespace %s.", e.Kind, rules.Quote(e.ID), e.Namespace)
}

// An ExistsError means that an object to create exists. Diff is the difference between it and the object to create.
type ExistsError struct {
	Object *control.Object
	Diff   string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("There is a %s %s already. PUT replaces it.", e.Object.Kind, e.Object.ID)
}

// A StaleError means that a Condition does not hold, usually because another caller has made a change.
type StaleError struct {
	// Object is the current object, nil if it does not exist or the condition is for a namespace.
	Object *control.Object
	// Namespace is the namespace's current revision, if the condition is for a namespace.
	Namespace int64
	// Diff is the difference between the current content and the content that the caller wants. It is nil if the object
	// does not exist.
	Diff *string

	message string
}

func (e *StaleError) Error() string { return e.message }

func staleNamespace(ns *namespace) *StaleError {
	return &StaleError{Namespace: ns.last, message: fmt.Sprintf(
		"Somebody else has changed the namespace %s: it is at revision %d.", ns.name, ns.last)}
}

// checkConditions returns a *StaleError unless the conditions hold for the current object, which is nil if it does not
// exist.
func checkConditions(match, noneMatch *Condition, current *control.Object, body []byte) error {
	revision := int64(0)
	if current != nil {
		revision = current.Revision
	}
	var message string
	switch {
	case match.Given && !match.Matches(revision) && current == nil:
		return &StaleError{message: "It does not exist: somebody else has deleted it, or it never existed."}
	case match.Given && !match.Matches(revision):
		message = fmt.Sprintf("Somebody else has changed it: it is at revision %d, changed by %s.",
			current.Revision, current.By)
	case noneMatch.Given && noneMatch.Matches(revision):
		message = fmt.Sprintf("It exists already, at revision %d.", current.Revision)
	default:
		return nil
	}
	diff := unifiedDiff(current.Kind, current.ID, current.Body, body)
	return &StaleError{Object: current, Diff: &diff, message: message}
}

// Problems collects the problems of edits.
type Problems struct {
	List []source.Problem // at most rules.MaxProblems
	More int              // number of problems that are not in List
}

// Add adds a problem.
func (p *Problems) Add(problem source.Problem) {
	if len(p.List) == rules.MaxProblems {
		p.More++
		return
	}
	p.List = append(p.List, problem)
}

// Err returns the problems as a *source.Error, nil if there are none.
func (p *Problems) Err() error {
	if len(p.List) == 0 {
		return nil
	}
	return &source.Error{Problems: p.List, More: p.More}
}

// addRules adds the problems of an error of package rules. Their paths are paths in a client, which fieldPath converts
// to paths in the edited object.
func (p *Problems) addRules(err error, e *Edit, fieldPath func(string) string) {
	var invalid *rules.Error
	if !errors.As(err, &invalid) {
		p.Add(source.Problem{Path: e.Path, Value: err.Error(), Want: "another value", Line: e.Line})
		return
	}
	for _, problem := range RuleProblems(invalid) {
		path := strings.TrimPrefix(strings.TrimPrefix(problem.Path, "client"), ".")
		problem.Path, problem.Line = JoinPath(e.Path, fieldPath(path)), e.Line
		p.Add(problem)
	}
	p.More += invalid.More
}

// RuleProblems converts problems of package rules to problems of package source.
func RuleProblems(e *rules.Error) []source.Problem {
	list := make([]source.Problem, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = source.Problem{Path: p.Path, Value: p.Value, Want: p.Want}
		if p.Other != "" {
			list[i].Want += "; " + p.Other + " has the same value"
		}
	}
	return list
}

// JoinPath returns the path of a field below another. Either may be empty.
func JoinPath(parent, field string) string {
	if parent == "" || field == "" {
		return parent + field
	}
	return parent + "." + field
}
