package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// maxListed is the maximum number of objects per change in a list of changes.
const maxListed = 100

// logQuery returns the query for a page of the log, and the page's limit. The query asks for one more change than the
// limit, to find out whether there is another page.
func logQuery(c *call.Call) (q control.LogQuery, limit int, err error) {
	n, err := c.Number("limit", 20, 1, 100)
	if err != nil {
		return q, 0, err
	}
	before, err := c.RevisionCursor()
	if err != nil {
		return q, 0, err
	}
	q = control.LogQuery{
		Kind: control.Kind(c.Query.Get("kind")), ID: c.Query.Get("id"), Before: before, Newest: true, Limit: int(n) + 1,
	}
	switch {
	case q.Kind != "" && !slices.Contains(control.Kinds(), q.Kind):
		err = problem.InvalidQuery("kind", string(q.Kind), "rule, client, override, token, webhook or event")
	case q.ID != "" && q.Kind == "":
		err = problem.InvalidQuery("id", q.ID, "a kind with it")
	case len(q.ID) > control.MaxID:
		err = problem.InvalidQuery("id", q.ID, "an id")
	}
	return q, int(n), err
}

// listRevisions serves GET /v1/revisions: the history of the objects that nodes receive.
func (s *Server) listRevisions(c *call.Call) error {
	q, limit, err := logQuery(c)
	if err != nil {
		return err
	}
	if q.Kind != "" && !q.Kind.ForNodes() {
		return problem.InvalidQuery("kind", string(q.Kind), "rule, client, override or suspension; /v1/audit has the others")
	}
	q.Namespace = c.Namespace
	list, next, err := s.history(c.R.Context(), q, limit, listedRevision)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, struct {
		Revisions []edit.Revision `json:"revisions"`
		Next      string          `json:"next,omitempty"`
	}{list, next})
}

// listedRevision describes a change. It lists the first of the changed objects that nodes receive.
func listedRevision(change *control.Change) edit.Revision {
	r := edit.NewRevision(change)
	for i := range change.Ops {
		op := &change.Ops[i]
		if !op.Kind.ForNodes() {
			continue
		}
		if r.Count++; r.Count <= maxListed {
			r.Changes = append(r.Changes, edit.Difference{Kind: op.Kind, ID: op.ID, Action: edit.Action(op.Before, op.Body)})
		}
	}
	return r
}

// history returns a page of the log, and the cursor of the next page. It omits changes for which convert returns a
// Revision without objects.
func (s *Server) history(
	ctx context.Context, q control.LogQuery, limit int, convert func(*control.Change) edit.Revision,
) (list []edit.Revision, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list = []edit.Revision{}
	for {
		changes, err := s.config.DB.Log(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range changes {
			r := convert(&changes[i])
			if r.Count == 0 {
				continue
			}
			if len(list) == limit {
				return list, call.NewCursor(strconv.FormatInt(list[limit-1].Revision, 10)), nil
			}
			list = append(list, r)
		}
		if len(changes) < q.Limit {
			return list, "", nil
		}
		q.Before = changes[len(changes)-1].Revision
	}
}

// revisionArg returns the revision in the path.
func revisionArg(c *call.Call) (int64, error) {
	n, err := strconv.ParseInt(c.Args[0], 10, 64)
	if err != nil || n < 1 {
		return 0, problem.New(http.StatusNotFound, "There is no revision %s.", rules.Quote(c.Args[0]))
	}
	return n, nil
}

// getRevision serves GET /v1/revisions/{n}.
func (s *Server) getRevision(c *call.Call) error {
	n, err := revisionArg(c)
	if err != nil {
		return err
	}
	notFound := problem.New(http.StatusNotFound,
		"No revision %d changed the namespace %s, or the log does not reach back that far.", n, c.Namespace)
	if n == math.MaxInt64 {
		return notFound
	}
	query := control.LogQuery{Namespace: c.Namespace, After: n - 1, Before: n + 1, Limit: 1}
	changes, err := s.config.DB.Log(c.R.Context(), query)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return notFound
	}
	var deltas []edit.Delta
	for _, op := range changes[0].Ops {
		if op.Kind.ForNodes() {
			deltas = append(deltas, edit.Delta{Kind: op.Kind, ID: op.ID, Before: op.Before, After: op.Body})
		}
	}
	if len(deltas) == 0 {
		return notFound
	}
	r := edit.NewRevision(&changes[0])
	r.Count, r.Diff = len(deltas), edit.Differences(deltas)
	return c.Respond(http.StatusOK, r)
}

// existingRevision returns the revision in the path, and the latest revision of all namespaces.
func (s *Server) existingRevision(c *call.Call) (n, latest int64, err error) {
	if n, err = revisionArg(c); err != nil {
		return 0, 0, err
	}
	latest, _, err = s.config.DB.Revision(c.R.Context(), "")
	if err == nil && n > latest {
		err = problem.New(http.StatusNotFound, "There is no revision %d yet: the last is %d.", n, latest)
	}
	return n, latest, err
}

// diffRevisions serves GET /v1/revisions/{n}/diff.
func (s *Server) diffRevisions(c *call.Call) error {
	ctx, cancel := context.WithTimeout(c.R.Context(), callTimeout)
	defer cancel()
	from, latest, err := s.existingRevision(c)
	if err != nil {
		return err
	}
	to, err := c.Number("to", latest, 1, latest)
	if err != nil {
		return err
	}
	deltas, err := edit.Compare(ctx, s.config.DB, c.Namespace, min(from, to), max(from, to), control.NodeKinds())
	if err != nil {
		return err
	}
	if to < from {
		for i := range deltas {
			deltas[i] = deltas[i].Reverse()
		}
	}
	return c.Respond(http.StatusOK, struct {
		From int64             `json:"from"`
		To   int64             `json:"to"`
		Diff []edit.Difference `json:"diff"`
	}{from, to, edit.Differences(deltas)})
}

// rollback serves POST /v1/revisions/{n}:rollback.
func (s *Server) rollback(c *call.Call) error {
	all, err := c.Flag("all")
	if err != nil {
		return err
	}
	options, err := c.CommitOptions()
	if err != nil {
		return err
	}
	n, _, err := s.existingRevision(c)
	if err != nil {
		return err
	}
	change := c.Change(c.Namespace, fmt.Sprintf("revisions.rollback to %d", n))
	result, err := s.editor.Rollback(c.R.Context(), change, n, all, options)
	if err != nil {
		return err
	}
	c.W.Header().Set("ETag", call.ETag(result.Revision))
	return c.Respond(http.StatusOK, result)
}
