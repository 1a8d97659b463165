package api

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// applied is what came of an apply or a rollback.
type applied struct {
	Revision  int64        `json:"revision"`
	DryRun    bool         `json:"dry_run,omitempty"`
	Diff      []difference `json:"diff"`
	Unchanged int          `json:"unchanged"`
}

// text returns the differences as one text.
func (a *applied) text() string {
	var b strings.Builder
	for i := range a.Diff {
		b.WriteString(a.Diff[i].Text)
	}
	return b.String()
}

// apply answers POST /v1/rules:apply: the namespace becomes what a file says.
func (s *Server) apply(c *call) error {
	prune, err := c.flag("prune")
	if err != nil {
		return err
	}
	t, err := c.terms()
	if err != nil {
		return err
	}
	name, data, err := c.read()
	if err != nil {
		return err
	}
	made, err := s.applyFile(c.r.Context(), c.change(c.namespace, "rules.apply"), fileApply{
		name: name, data: data, prune: prune, dryRun: t.dryRun, match: t.match,
	})
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", etag(made.Revision))
	return c.answer(http.StatusOK, made)
}

// terms are on what terms a change of many objects is asked for.
type terms struct {
	dryRun bool
	match  condition
}

func (c *call) terms() (t terms, err error) {
	if t.dryRun, err = c.flag("dry_run"); err != nil {
		return t, err
	}
	t.match, err = c.condition("If-Match")
	return t, err
}

// Apply makes the rules and clients of a namespace those of a rules file, whether the server is read-only or not; what is
// not in the file is deleted, clients only if the file has a list of them. The name of the file tells YAML from JSON. It
// returns the namespace's revision. The error has everything that is wrong with the file, and nothing is changed then.
func (s *Server) Apply(ctx context.Context, namespace, actor, name string, data []byte) (revision int64, err error) {
	change := &control.Change{Namespace: namespace, Actor: actor, Action: "rules.apply", Note: name}
	made, err := s.applyFile(ctx, change, fileApply{name: name, data: data, prune: true})
	if err != nil {
		return 0, err
	}
	return made.Revision, nil
}

// A fileApply is a file that is to be applied.
type fileApply struct {
	name          string
	data          []byte
	prune, dryRun bool
	match         condition
}

func (s *Server) applyFile(ctx context.Context, change *control.Change, f fileApply) (*applied, error) {
	doc, err := file.Parse(f.name, f.data)
	if err != nil {
		return nil, err
	}
	pruneClients := f.prune && hasClients(f.name, f.data, doc)
	var made *applied
	diff := func() string { return made.text() }
	changed, err := s.commit(ctx, request{change: change, match: f.match, dryRun: f.dryRun, diff: diff, edits: func(ctx context.Context, sp *space) ([]edit, error) {
		made = &applied{Revision: sp.last, DryRun: f.dryRun, Diff: []difference{}}
		edits, before, err := s.fileEdits(ctx, sp, doc, f.prune, pruneClients)
		if err != nil {
			return nil, err
		}
		made.Unchanged = len(doc.Rules) + len(doc.Clients)
		for i := range edits {
			e := &edits[i]
			made.Diff = append(made.Diff, differ(e.kind, e.id, before[i], e.body, len(edits)))
			if e.body != nil {
				made.Unchanged--
			}
		}
		return edits, nil
	}})
	if err != nil {
		return nil, err
	}
	if changed {
		made.Revision = change.Revision
	}
	return made, nil
}

// hasClients reports whether a file has a list of clients, be it empty.
func hasClients(name string, data []byte, doc *file.Document) bool {
	if len(doc.Clients) > 0 {
		return true
	}
	if !bytes.Contains(data, []byte("clients")) {
		return false
	}
	f, err := source.Read(name, data)
	return err == nil && f.Root != nil && f.Root.Field("clients") != nil
}

// fileEdits returns what makes a namespace what a file says, and what was there before each.
func (s *Server) fileEdits(ctx context.Context, sp *space, doc *file.Document, prune, pruneClients bool) (edits []edit, before [][]byte, err error) {
	add := func(e edit, was []byte, revision int64) {
		e.base = revision
		edits, before = append(edits, e), append(before, was)
	}
	gone := maps.Clone(sp.rules)
	for i := range doc.Rules {
		e := ruleEdit(doc.Rules[i])
		e.path = "rules[" + strconv.Itoa(i) + "]"
		held, was := sp.rules[e.id]
		delete(gone, e.id)
		switch {
		case !was:
			add(e, nil, control.Absent)
		case !bytes.Equal(held.body, e.body):
			add(e, held.body, control.Any) // the namespace's revision says that it is this one
		}
	}
	if prune {
		for _, id := range slices.Sorted(maps.Keys(gone)) {
			add(edit{kind: control.KindRule, id: id}, gone[id].body, control.Any)
		}
	}
	kept := make(map[string]bool, len(doc.Clients))
	for i := range doc.Clients {
		e := clientEdit(doc.Clients[i])
		e.path = "clients[" + strconv.Itoa(i) + "]"
		kept[e.id] = true
		var was *control.Object
		if _, there := sp.clients.Get(e.id); there {
			if was, err = s.get(ctx, sp.name, control.KindClient, e.id); err != nil {
				return nil, nil, err
			}
		}
		switch {
		case was == nil:
			add(e, nil, control.Absent)
		case !bytes.Equal(was.Body, e.body):
			add(e, was.Body, was.Revision)
		}
	}
	if pruneClients {
		err = s.eachClient(ctx, sp.name, func(o *control.Object) {
			if !kept[o.ID] {
				add(edit{kind: control.KindClient, id: o.ID}, o.Body, o.Revision)
			}
		})
	}
	return edits, before, err
}

// eachClient calls each for all clients of a namespace.
func (s *Server) eachClient(ctx context.Context, namespace string, each func(*control.Object)) error {
	q := control.Query{Namespace: namespace, Kind: control.KindClient, Limit: 5000}
	for {
		objects, err := s.config.DB.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range objects {
			each(&objects[i])
		}
		if len(objects) < q.Limit {
			return nil
		}
		q.AfterNamespace, q.AfterID = namespace, objects[len(objects)-1].ID
	}
}
