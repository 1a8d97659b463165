package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// A Put creates or replaces one object.
type Put struct {
	Kind control.Kind
	ID   string
	// New is the new object. Alternatively, Patch is merged into the existing one (RFC 7396).
	New   Edit
	Patch map[string]any
	// MustCreate requires that the object does not exist. Match and NoneMatch are conditions for its revision.
	MustCreate       bool
	Match, NoneMatch Condition
}

// A PutResult is the object after a Put.
type PutResult struct {
	Object  *control.Object
	Created bool
	// Warnings say why the object may not have the intended effect.
	Warnings []string
}

// Put creates or replaces an object. The error is a *source.Error, *NotFoundError, *ExistsError or *StaleError if the
// caller has to change the request.
func (e *Editor) Put(ctx context.Context, change *control.Change, put Put) (*PutResult, error) {
	p := &putPlan{Put: put, now: e.options.Now()}
	committed, err := e.commit(ctx, change, p, CommitOptions{})
	if err != nil {
		return nil, err
	}
	if !committed {
		return &PutResult{Object: p.before, Warnings: p.warnings}, nil
	}
	o := &control.Object{
		Namespace: change.Namespace, Kind: p.Kind, ID: p.ID, Revision: change.Revision, Body: p.after.Body,
		Created: change.Time, Updated: change.Time, By: change.Actor,
	}
	if p.before != nil {
		o.Created = p.before.Created
	}
	return &PutResult{Object: o, Created: p.before == nil, Warnings: p.warnings}, nil
}

// A putPlan computes the edit of a Put.
type putPlan struct {
	Put
	now time.Time

	// Each call of edits sets these fields.
	before   *control.Object // nil if the object did not exist
	after    Edit
	warnings []string
}

func (p *putPlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	var err error
	if p.before, err = ns.get(ctx, p.Kind, p.ID); err != nil {
		return nil, err
	}
	if p.after, err = p.newObject(ns); err != nil {
		return nil, err
	}
	if p.after.ID != p.ID {
		want := "the id of the path, " + rules.Quote(p.ID) + "; a " + string(p.Kind) + " cannot be renamed"
		problem := source.Problem{Path: "id", Value: rules.Quote(p.after.ID), Want: want}
		return nil, &source.Error{Problems: []source.Problem{problem}}
	}
	if p.MustCreate && p.before != nil {
		return nil, &ExistsError{p.before, unifiedDiff(p.Kind, p.ID, p.before.Body, p.after.Body)}
	}
	if err := checkConditions(&p.Match, &p.NoneMatch, p.before, p.after.Body); err != nil {
		return nil, err
	}
	p.warnings = nil
	if p.after.override != nil {
		if warning := ns.unusedOverrideWarning(p.after.override); warning != "" {
			p.warnings = []string{warning}
		}
	}
	switch {
	case p.before == nil:
		p.after.base = control.Absent
	case bytes.Equal(p.before.Body, p.after.Body):
		return nil, nil
	default:
		p.after.base = p.before.Revision
	}
	return []Edit{p.after}, nil
}

// newObject returns the new object: New, or the existing object with Patch applied.
func (p *putPlan) newObject(ns *namespace) (Edit, error) {
	if p.Patch == nil {
		return p.New, nil
	}
	if p.before == nil {
		return Edit{}, &NotFoundError{ns.name, p.Kind, p.ID}
	}
	var stored any
	d := json.NewDecoder(bytes.NewReader(p.before.Body))
	d.UseNumber()
	if err := d.Decode(&stored); err != nil {
		return Edit{}, fmt.Errorf("read %s %s: %w", p.Kind, p.ID, err)
	}
	merged, err := json.Marshal(mergePatch(stored, p.Patch))
	if err != nil {
		return Edit{}, err
	}
	return Parse(p.Kind, "body.json", merged, p.now)
}

// mergePatch returns the target with a JSON merge patch applied (RFC 7396).
func mergePatch(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = make(map[string]any)
	}
	for name, value := range fields {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = mergePatch(merged[name], value)
		}
	}
	return merged
}

// Delete deletes an object if the condition holds for its revision. The error is a *NotFoundError or *StaleError if the
// caller has to change the request.
func (e *Editor) Delete(
	ctx context.Context, change *control.Change, kind control.Kind, id string, match Condition,
) error {
	_, err := e.commit(ctx, change, &deletePlan{kind, id, match}, CommitOptions{})
	return err
}

type deletePlan struct {
	kind  control.Kind
	id    string
	match Condition
}

func (p *deletePlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	o, err := ns.get(ctx, p.kind, p.id)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, &NotFoundError{ns.name, p.kind, p.id}
	}
	if err := checkConditions(&p.match, &Condition{}, o, nil); err != nil {
		return nil, err
	}
	return []Edit{deletion(p.kind, o.ID, o.Revision)}, nil
}
