package call

import (
	"errors"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// InvalidContent converts an error about content that a caller has sent to a problem. It returns nil for other errors.
func InvalidContent(err error) *problem.Error {
	var (
		problemErr *problem.Error
		sourceErr  *source.Error
		rulesErr   *rules.Error
	)
	switch {
	case errors.As(err, &problemErr):
		return problemErr
	case errors.As(err, &sourceErr):
		return problem.Invalid(sourceErr.Problems, sourceErr.More)
	case errors.As(err, &rulesErr):
		return problem.Invalid(edit.RuleProblems(rulesErr), rulesErr.More)
	}
	return nil
}

// InvalidDraft converts an error about the field draft of a body to a problem with paths below "draft". It returns
// other errors unchanged.
func InvalidDraft(err error) error {
	p := InvalidContent(err)
	if p == nil {
		return err
	}
	for i := range p.Fields {
		p.Fields[i].Path = edit.JoinPath("draft", p.Fields[i].Path)
		p.Fields[i].Line, p.Fields[i].Column = 0, 0 // they are positions in the draft, not in the body
	}
	return p
}
