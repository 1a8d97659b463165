package edit

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Delta is the change of one object between two revisions. A body is nil if the object did not exist.
type Delta struct {
	Kind          control.Kind
	ID            string
	Before, After []byte
}

// Reverse returns the delta that undoes d.
func (d Delta) Reverse() Delta { return Delta{d.Kind, d.ID, d.After, d.Before} }

// maxCompared is the maximum number of changes to read from the log.
const maxCompared = 100_000

// ErrTooManyChanges means that there are too many changes between two revisions to compare them.
var ErrTooManyChanges = fmt.Errorf("there are more than %d changes between them", maxCompared)

// Compare returns the objects of a namespace that differ between two revisions, in the order of kinds and IDs. The
// error is control.ErrPruned if the log does not reach back to the first revision, or ErrTooManyChanges.
func Compare(
	ctx context.Context, db control.DB, namespace string, from, to int64, kinds []control.Kind,
) ([]Delta, error) {
	// Check that the log reaches back to from. Any kind would do; overrides are few, so reading them is cheap.
	if _, err := db.At(ctx, namespace, control.KindOverride, from); err != nil {
		return nil, err
	}
	deltas := make(deltaMap)
	q := control.LogQuery{Namespace: namespace, After: from, Limit: 100}
	for read := 0; ; read += q.Limit {
		changes, err := db.Log(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range changes {
			if changes[i].Revision <= to {
				deltas.add(changes[i].Ops, kinds)
			}
		}
		if len(changes) < q.Limit || changes[len(changes)-1].Revision > to {
			return deltas.sorted(kinds), nil
		}
		if read > maxCompared {
			return nil, ErrTooManyChanges
		}
		q.After = changes[len(changes)-1].Revision
	}
}

type objectKey struct {
	kind control.Kind
	id   string
}

type deltaMap map[objectKey]*Delta

// add adds the operations of the next change.
func (m deltaMap) add(ops []control.Op, kinds []control.Kind) {
	for _, op := range ops {
		if !slices.Contains(kinds, op.Kind) {
			continue
		}
		key := objectKey{op.Kind, op.ID}
		if m[key] == nil {
			m[key] = &Delta{Kind: op.Kind, ID: op.ID, Before: op.Before}
		}
		m[key].After = op.Body
	}
}

// sorted returns the deltas in the order of kinds and IDs. It leaves out objects that are the same after the changes as
// before.
func (m deltaMap) sorted(kinds []control.Kind) []Delta {
	var list []Delta
	for _, d := range m {
		if !bytes.Equal(d.Before, d.After) || (d.Before == nil) != (d.After == nil) {
			list = append(list, *d)
		}
	}
	slices.SortFunc(list, func(a, b Delta) int {
		if n := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); n != 0 {
			return n
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// Rollback commits a change that restores the rules of a namespace as of an earlier revision. If all is true, it also
// restores clients and overrides. It never restores suspensions, which concern the present. It returns the errors of
// Compare and ApplyFile.
func (e *Editor) Rollback(
	ctx context.Context, change *control.Change, revision int64, all bool, o CommitOptions,
) (*Result, error) {
	return e.commitMany(ctx, change, &rollbackPlan{revision: revision, all: all}, o)
}

// A rollbackPlan undoes the changes after a revision. Each call of edits sets objects and deltas.
type rollbackPlan struct {
	revision int64
	all      bool

	objects int // number of objects in the namespace that the rollback covers
	deltas  []Delta
}

func (p *rollbackPlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	kinds := []control.Kind{control.KindRule}
	p.objects = len(ns.rules)
	if p.all {
		kinds = []control.Kind{control.KindRule, control.KindClient, control.KindOverride}
		p.objects += ns.clients.Len() + len(ns.overrides)
	}
	deltas, err := Compare(ctx, ns.db, ns.name, p.revision, math.MaxInt64, kinds)
	if err != nil {
		return nil, err
	}
	p.deltas = nil
	edits := make([]Edit, 0, len(deltas))
	for _, d := range deltas {
		undo := d.Reverse()
		e, err := undo.edit()
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
		p.deltas = append(p.deltas, undo)
	}
	return edits, nil
}

func (p *rollbackPlan) summary() (deltas []Delta, unchanged int) {
	unchanged = p.objects
	for _, d := range p.deltas {
		if d.Before != nil {
			unchanged--
		}
	}
	return p.deltas, unchanged
}

// edit returns the edit that makes the change.
func (d *Delta) edit() (Edit, error) {
	if d.After == nil {
		return deletion(d.Kind, d.ID, control.AnyRevision), nil
	}
	e, err := Parse(d.Kind, "body.json", d.After, time.Time{})
	if err != nil {
		return Edit{}, fmt.Errorf("earlier version of %s %s: %w", d.Kind, d.ID, err)
	}
	e.Path = string(d.Kind) + "s/" + d.ID
	if d.Before == nil {
		e.base = control.Absent
	}
	return e, nil
}
