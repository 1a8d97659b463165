package edit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A SuspendedError means that enforcement cannot be turned on for one rule, because it is off for all rules.
type SuspendedError struct {
	Namespace string
	Expires   time.Time
}

func (e *SuspendedError) Error() string {
	return fmt.Sprintf("No rule of the namespace %s is enforced until %s. Turn on the enforcement of all its rules.",
		e.Namespace, e.Expires.Format(time.RFC3339))
}

// Suspensions returns the suspensions of a namespace, including expired ones.
func (e *Editor) Suspensions(ctx context.Context, namespace string) ([]control.Suspension, error) {
	var list []control.Suspension
	q := control.Query{Namespace: namespace, Kind: control.KindSuspension, Limit: 1000}
	for object, err := range control.All(ctx, e.options.DB, q) {
		if err != nil {
			return nil, err
		}
		s, err := control.ParseSuspension(object.ID, object.Body)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Suspend turns off enforcement. It replaces an earlier suspension of the same rule, and sets the
// operations of the change.
func (e *Editor) Suspend(ctx context.Context, change *control.Change, s *control.Suspension) error {
	body, err := s.Body()
	if err != nil {
		return err
	}
	op := suspensionOp(s)
	op.Body = body
	change.Ops = []control.Op{op}
	return e.commitSuspensions(ctx, change)
}

// EndSuspensions ends the suspension of a rule, or all suspensions of the namespace if the rule is empty. The error is a
// *SuspendedError if the rule stays suspended, because all rules are.
func (e *Editor) EndSuspensions(ctx context.Context, change *control.Change, rule string) error {
	const maxAttempts = 3 // a commit conflicts if another call deletes a suspension at the same time
	for attempt := 1; ; attempt++ {
		list, err := e.Suspensions(ctx, change.Namespace)
		if err != nil {
			return err
		}
		change.Ops = nil
		for i := range list {
			if rule != "" && list[i].Rule == "" && list[i].Expires.After(e.options.Now()) {
				return &SuspendedError{change.Namespace, list[i].Expires}
			}
			if rule == "" || rule == list[i].Rule {
				change.Ops = append(change.Ops, suspensionOp(&list[i]))
			}
		}
		err = e.commitSuspensions(ctx, change)
		if !errors.Is(err, control.ErrConflict) || attempt == maxAttempts {
			return err
		}
	}
}

// DeleteExpiredSuspensions deletes the suspensions of all namespaces that expired an hour ago.
func (e *Editor) DeleteExpiredSuspensions(ctx context.Context) error {
	names, err := e.options.DB.Namespaces(ctx)
	if err != nil {
		return err
	}
	before := e.options.Now().Add(-expiryDelay)
	for _, name := range names {
		list, err := e.Suspensions(ctx, name)
		if err != nil {
			return err
		}
		change := &control.Change{
			Namespace: name, Actor: control.SystemActor, Action: "enforcement.expire", Base: control.AnyRevision,
		}
		for i := range list {
			if list[i].Expires.Before(before) {
				change.Ops = append(change.Ops, suspensionOp(&list[i]))
			}
		}
		if err := e.commitSuspensions(ctx, change); err != nil && !errors.Is(err, control.ErrConflict) {
			return err
		}
	}
	return nil
}

// suspensionOp returns an operation that deletes the suspension. If the caller sets Body, the operation stores it
// instead.
func suspensionOp(s *control.Suspension) control.Op {
	return control.Op{Kind: control.KindSuspension, ID: control.SuspensionID(s.Rule), Base: control.AnyRevision}
}

// commitSuspensions commits a change of suspensions, if it has any operations. It need not load the namespace, because
// suspensions are valid with any rules.
func (e *Editor) commitSuspensions(ctx context.Context, change *control.Change) error {
	if len(change.Ops) == 0 {
		return nil
	}
	if err := e.options.DB.Commit(ctx, change); err != nil {
		return err
	}
	e.options.Committed(change)
	return nil
}
