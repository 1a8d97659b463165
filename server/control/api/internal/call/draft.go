package call

import (
	"errors"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// InvalidContent returns the problem of an error in the content that a caller sent, nil if it is another error.
func InvalidContent(err error) *problem.Error {
	var (
		problemError *problem.Error
		invalid      *source.Error
		rule         *rules.Error
	)
	switch {
	case errors.As(err, &problemError):
		return problemError
	case errors.As(err, &invalid):
		return problem.Invalid(invalid.Problems, invalid.More)
	case errors.As(err, &rule):
		return problem.Invalid(edit.RuleProblems(rule), rule.More)
	}
	return nil
}

// InvalidDraft returns the problem of an error in the field draft of a body, with paths below "draft". It returns other
// errors unchanged.
func InvalidDraft(err error) error {
	p := InvalidContent(err)
	if p == nil {
		return err
	}
	for i := range p.Fields {
		p.Fields[i].Path = edit.JoinPath("draft", p.Fields[i].Path)
		p.Fields[i].Line, p.Fields[i].Column = 0, 0 // of the draft, not of the body
	}
	return p
}
