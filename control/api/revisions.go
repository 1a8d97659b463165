package api

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// A revisionView is a change as it is shown.
type revisionView struct {
	Revision  int64     `json:"revision"`
	Namespace string    `json:"namespace"`
	Time      time.Time `json:"time"`
	Actor     string    `json:"actor"`
	From      string    `json:"from,omitempty"` // in the audit
	Action    string    `json:"action"`
	Note      string    `json:"note,omitempty"`
	// Count is how many objects it changed, Changes the first of them.
	Count   int          `json:"count"`
	Changes []difference `json:"changes,omitempty"`
	Diff    []difference `json:"diff,omitempty"`
}

// maxListed is how many objects of a change are listed where several changes are.
const maxListed = 100

func viewOf(c *control.Change) revisionView {
	return revisionView{Revision: c.Revision, Namespace: c.Namespace, Time: c.Time, Actor: c.Actor, Action: c.Action, Note: c.Note}
}

// logQuery reads which changes are asked for.
func (c *call) logQuery() (q control.LogQuery, limit int, err error) {
	n, err := c.number("limit", 20, 1, 100)
	if err != nil {
		return q, 0, err
	}
	before, err := c.revisionCursor()
	if err != nil {
		return q, 0, err
	}
	q = control.LogQuery{Kind: control.Kind(c.query.Get("kind")), ID: c.query.Get("id"), Before: before, Newest: true, Limit: int(n) + 1}
	if q.Kind != "" && !slices.Contains(control.Kinds(), q.Kind) {
		return q, 0, wrongQuery("kind", string(q.Kind), "rule, client, override, token, webhook or event")
	}
	if q.ID != "" && q.Kind == "" {
		return q, 0, wrongQuery("id", q.ID, "a kind with it")
	}
	if len(q.ID) > control.MaxID {
		return q, 0, wrongQuery("id", q.ID, "an id")
	}
	return q, int(n), nil
}

// revisions answers GET /v1/revisions: the history of what nodes get.
func (s *Server) revisions(c *call) error {
	q, limit, err := c.logQuery()
	if err != nil {
		return err
	}
	if q.Kind != "" && !q.Kind.ForNodes() {
		return wrongQuery("kind", string(q.Kind), "rule, client or override; the audit has the others")
	}
	q.Namespace = c.namespace
	made, next, err := s.history(c.r.Context(), q, limit, func(change *control.Change) (revisionView, bool) {
		v := viewOf(change)
		for i := range change.Ops {
			op := &change.Ops[i]
			if !op.Kind.ForNodes() {
				continue
			}
			if v.Count++; v.Count <= maxListed {
				v.Changes = append(v.Changes, difference{Kind: op.Kind, ID: op.ID, Action: action(op.Before, op.Body)})
			}
		}
		return v, v.Count > 0
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, struct {
		Revisions []revisionView `json:"revisions"`
		Next      string         `json:"next,omitempty"`
	}{made, next})
}

// history returns a page of the log, the latest first.
func (s *Server) history(ctx context.Context, q control.LogQuery, limit int, view func(*control.Change) (revisionView, bool)) (made []revisionView, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	made = []revisionView{}
	for {
		changes, err := s.config.DB.Log(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range changes {
			v, shown := view(&changes[i])
			if !shown {
				continue
			}
			if len(made) == limit {
				return made, makeCursor(strconv.FormatInt(made[limit-1].Revision, 10)), nil
			}
			made = append(made, v)
		}
		if len(changes) < q.Limit {
			return made, "", nil
		}
		q.Before = changes[len(changes)-1].Revision
	}
}

// number returns the revision in the path.
func (c *call) revisionArg() (int64, error) {
	n, err := strconv.ParseInt(c.args[0], 10, 64)
	if err != nil || n < 1 {
		return 0, fail(http.StatusNotFound, "There is no revision %s.", rules.Quote(c.args[0]))
	}
	return n, nil
}

// revision answers GET /v1/revisions/{n}.
func (s *Server) revision(c *call) error {
	n, err := c.revisionArg()
	if err != nil {
		return err
	}
	if n == math.MaxInt64 {
		return noRevision(n, c.namespace)
	}
	changes, err := s.config.DB.Log(c.r.Context(), control.LogQuery{Namespace: c.namespace, After: n - 1, Before: n + 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return noRevision(n, c.namespace)
	}
	v := viewOf(&changes[0])
	v.Diff = []difference{}
	ops := changes[0].Ops
	for i := range ops {
		if ops[i].Kind.ForNodes() {
			v.Count++
			v.Diff = append(v.Diff, differ(ops[i].Kind, ops[i].ID, ops[i].Before, ops[i].Body, len(ops)))
		}
	}
	if v.Count == 0 {
		return noRevision(n, c.namespace)
	}
	return c.answer(http.StatusOK, v)
}

func noRevision(n int64, namespace string) error {
	return fail(http.StatusNotFound, "No revision %d changed the namespace %s, or the log does not reach back that far.", n, namespace)
}

// A delta is what changed between two revisions.
type delta struct {
	kind          control.Kind
	id            string
	before, after []byte
}

// maxDelta is how many changes are followed to tell what changed between two revisions.
const maxDelta = 100_000

// between returns what changed in a namespace after one revision, up to another, in the order of kinds and ids.
func (s *Server) between(ctx context.Context, namespace string, from, to int64, kinds []control.Kind) ([]delta, error) {
	// Whether the log reaches back that far is the same for all kinds, and there are few overrides.
	if _, err := s.config.DB.At(ctx, namespace, control.KindOverride, from); err != nil {
		return nil, err
	}
	type name struct {
		kind control.Kind
		id   string
	}
	found := make(map[name]*delta)
	q := control.LogQuery{Namespace: namespace, After: from, Limit: 100}
	for followed := 0; ; followed++ {
		changes, err := s.config.DB.Log(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range changes {
			if changes[i].Revision > to {
				break
			}
			for _, op := range changes[i].Ops {
				if !slices.Contains(kinds, op.Kind) {
					continue
				}
				d := found[name{op.Kind, op.ID}]
				if d == nil {
					d = &delta{kind: op.Kind, id: op.ID, before: op.Before}
					found[name{op.Kind, op.ID}] = d
				}
				d.after = op.Body
			}
		}
		if len(changes) < q.Limit || changes[len(changes)-1].Revision > to {
			break
		}
		if q.After = changes[len(changes)-1].Revision; followed*q.Limit > maxDelta {
			return nil, fail(http.StatusUnprocessableEntity, "There are more than %d changes between them.", maxDelta)
		}
	}
	var list []delta
	for _, d := range found {
		if !bytes.Equal(d.before, d.after) || (d.before == nil) != (d.after == nil) {
			list = append(list, *d)
		}
	}
	slices.SortFunc(list, func(a, b delta) int {
		if n := slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind); n != 0 {
			return n
		}
		return bytes.Compare([]byte(a.id), []byte(b.id))
	})
	return list, nil
}

var nodeKinds = []control.Kind{control.KindRule, control.KindClient, control.KindOverride}

// existing returns the revision of the path, if there was one.
func (s *Server) existing(c *call) (n, last int64, err error) {
	if n, err = c.revisionArg(); err != nil {
		return 0, 0, err
	}
	all, _, err := s.config.DB.Revision(c.r.Context(), "")
	if err != nil {
		return 0, 0, err
	}
	if n > all {
		return 0, 0, fail(http.StatusNotFound, "There is no revision %d yet: the last is %d.", n, all)
	}
	return n, all, nil
}

// revisionDiff answers GET /v1/revisions/{n}/diff.
func (s *Server) revisionDiff(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), callTime)
	defer cancel()
	from, last, err := s.existing(c)
	if err != nil {
		return err
	}
	to, err := c.number("to", last, 1, last)
	if err != nil {
		return err
	}
	low, high := min(from, to), max(from, to)
	list, err := s.between(ctx, c.namespace, low, high, nodeKinds)
	if err != nil {
		return err
	}
	made := make([]difference, len(list))
	for i, d := range list {
		if to < from {
			d.before, d.after = d.after, d.before
		}
		made[i] = differ(d.kind, d.id, d.before, d.after, len(list))
	}
	return c.answer(http.StatusOK, struct {
		From int64        `json:"from"`
		To   int64        `json:"to"`
		Diff []difference `json:"diff"`
	}{from, to, made})
}

// rollback answers POST /v1/revisions/{n}:rollback: rules become what they were, as a new change.
func (s *Server) rollback(c *call) error {
	all, err := c.flag("all")
	if err != nil {
		return err
	}
	t, err := c.terms()
	if err != nil {
		return err
	}
	n, _, err := s.existing(c)
	if err != nil {
		return err
	}
	kinds := nodeKinds[:1]
	if all {
		kinds = nodeKinds
	}
	change := c.change(c.namespace, fmt.Sprintf("revisions.rollback to %d", n))
	var made *applied
	diff := func() string { return made.text() }
	changed, err := s.commit(c.r.Context(), request{change: change, match: t.match, dryRun: t.dryRun, diff: diff, edits: func(ctx context.Context, sp *space) ([]edit, error) {
		made = &applied{Revision: sp.last, DryRun: t.dryRun, Diff: []difference{}, Unchanged: len(sp.rules)}
		if all {
			made.Unchanged += sp.clients.Len() + len(sp.overrides)
		}
		list, err := s.between(ctx, c.namespace, n, math.MaxInt64, kinds)
		if err != nil {
			return nil, err
		}
		edits := make([]edit, 0, len(list))
		for _, d := range list {
			e, err := back(&d)
			if err != nil {
				return nil, err
			}
			edits = append(edits, e)
			made.Diff = append(made.Diff, differ(d.kind, d.id, d.after, d.before, len(list)))
			if d.after != nil {
				made.Unchanged--
			}
		}
		return edits, nil
	}})
	if err != nil {
		return err
	}
	if changed {
		made.Revision = change.Revision
	}
	c.w.Header().Set("ETag", etag(made.Revision))
	return c.answer(http.StatusOK, made)
}

// back returns the edit that makes an object what it was.
func back(d *delta) (edit, error) {
	if d.before == nil {
		return edit{kind: d.kind, id: d.id, base: control.Any}, nil
	}
	e, err := sortOf(d.kind).read("body.json", d.before, time.Time{})
	if err != nil {
		return edit{}, fmt.Errorf("%s %s as it was: %w", d.kind, d.id, err)
	}
	e.path = string(d.kind) + "s/" + d.id
	if e.base = control.Any; d.after == nil {
		e.base = control.Absent
	}
	return e, nil
}
