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
func (e *Editor) Put(ctx context.Context, entry *control.Change, p Put) (*PutResult, error) {
	c := &putChange{Put: p, now: e.options.Now()}
	committed, err := e.commit(ctx, entry, c, Terms{})
	if err != nil {
		return nil, err
	}
	if !committed {
		return &PutResult{Object: c.before, Warnings: c.warnings}, nil
	}
	o := &control.Object{
		Namespace: entry.Namespace, Kind: p.Kind, ID: p.ID, Revision: entry.Revision, Body: c.after.Body,
		Created: entry.Time, Updated: entry.Time, By: entry.Actor,
	}
	if c.before != nil {
		o.Created = c.before.Created
	}
	return &PutResult{Object: o, Created: c.before == nil, Warnings: c.warnings}, nil
}

// A putChange is the change of a Put. The last call of edits sets the fields below now.
type putChange struct {
	Put
	now time.Time

	before   *control.Object // nil if the object did not exist
	after    Edit
	warnings []string
}

func (c *putChange) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	var err error
	if c.before, err = ns.get(ctx, c.Kind, c.ID); err != nil {
		return nil, err
	}
	if c.after, err = c.newObject(ns); err != nil {
		return nil, err
	}
	if c.after.ID != c.ID {
		want := "the id of the path, " + rules.Quote(c.ID) + "; a " + string(c.Kind) + " cannot be renamed"
		problem := source.Problem{Path: "id", Value: rules.Quote(c.after.ID), Want: want}
		return nil, &source.Error{Problems: []source.Problem{problem}}
	}
	if c.MustCreate && c.before != nil {
		return nil, &ExistsError{c.before, unifiedDiff(c.Kind, c.ID, c.before.Body, c.after.Body)}
	}
	if err := checkConditions(&c.Match, &c.NoneMatch, c.before, c.after.Body); err != nil {
		return nil, err
	}
	c.warnings = nil
	if c.after.override != nil {
		if warning := ns.unusedOverride(c.after.override); warning != "" {
			c.warnings = []string{warning}
		}
	}
	switch {
	case c.before == nil:
		c.after.base = control.Absent
	case bytes.Equal(c.before.Body, c.after.Body):
		return nil, nil
	default:
		c.after.base = c.before.Revision
	}
	return []Edit{c.after}, nil
}

// newObject returns the object after the change.
func (c *putChange) newObject(ns *namespace) (Edit, error) {
	if c.Patch == nil {
		return c.New, nil
	}
	if c.before == nil {
		return Edit{}, &NotFoundError{ns.name, c.Kind, c.ID}
	}
	var stored any
	d := json.NewDecoder(bytes.NewReader(c.before.Body))
	d.UseNumber()
	if err := d.Decode(&stored); err != nil {
		return Edit{}, fmt.Errorf("read %s %s: %w", c.Kind, c.ID, err)
	}
	merged, err := json.Marshal(mergePatch(stored, c.Patch))
	if err != nil {
		return Edit{}, err
	}
	return Parse(c.Kind, "body.json", merged, c.now)
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
	ctx context.Context, entry *control.Change, kind control.Kind, id string, match Condition,
) error {
	_, err := e.commit(ctx, entry, &deleteChange{kind, id, match}, Terms{})
	return err
}

type deleteChange struct {
	kind  control.Kind
	id    string
	match Condition
}

func (c *deleteChange) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	o, err := ns.get(ctx, c.kind, c.id)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, &NotFoundError{ns.name, c.kind, c.id}
	}
	if err := checkConditions(&c.match, &Condition{}, o, nil); err != nil {
		return nil, err
	}
	return []Edit{{Kind: c.kind, ID: o.ID, base: o.Revision}}, nil
}
