package edit

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
)

// A Result is the result of a change of several objects.
type Result struct {
	Revision  int64        `json:"revision"`
	DryRun    bool         `json:"dry_run,omitempty"`
	Diff      []Difference `json:"diff"`
	Unchanged int          `json:"unchanged"`
}

// A File is a rules file to apply.
type File struct {
	Name string // the extension selects JSON or YAML
	Data []byte
	// Prune deletes the rules that are not in the file, and the clients if the file has a list of clients.
	Prune bool
}

// ApplyFile commits a change that gives a namespace the rules and clients of a file. An invalid file returns a
// *source.Error with all problems, and a failed Match a *StaleError.
func (e *Editor) ApplyFile(ctx context.Context, change *control.Change, f File, o CommitOptions) (*Result, error) {
	doc, err := file.Parse(f.Name, f.Data)
	if err != nil {
		return nil, err
	}
	p := &filePlan{doc: doc, prune: f.Prune, pruneClients: f.Prune && listsClients(&f, doc)}
	return e.commitMany(ctx, change, p, o)
}

// listsClients reports whether a file has a list of clients, which may be empty.
func listsClients(f *File, doc *file.Document) bool {
	if len(doc.Clients) > 0 {
		return true
	}
	if !bytes.Contains(f.Data, []byte("clients")) {
		return false
	}
	s, err := source.Read(f.Name, f.Data)
	return err == nil && s.Root != nil && s.Root.Field("clients") != nil
}

// A bulkPlan is a plan that changes several objects.
type bulkPlan interface {
	plan
	// summary returns the deltas of the last call of edits, and the number of objects that it left unchanged.
	summary() (deltas []Delta, unchanged int)
}

// commitMany commits a change of several objects. If it returns a *StaleError, the error's Diff is what the change
// would do to the current objects.
func (e *Editor) commitMany(ctx context.Context, change *control.Change, p bulkPlan, o CommitOptions) (*Result, error) {
	committed, err := e.commit(ctx, change, p, o)
	var stale *StaleError
	if err != nil && !errors.As(err, &stale) {
		return nil, err
	}
	deltas, unchanged := p.summary()
	r := &Result{Revision: change.Base, DryRun: o.DryRun, Diff: Differences(deltas), Unchanged: unchanged}
	if stale != nil {
		text := joinTexts(r.Diff)
		stale.Diff = &text
		return nil, stale
	}
	if committed {
		r.Revision = change.Revision
	}
	return r, nil
}

// A filePlan gives a namespace the content of a document. Each call of edits sets list and deltas.
type filePlan struct {
	doc                 *file.Document
	prune, pruneClients bool

	list   []Edit
	deltas []Delta
}

func (p *filePlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	p.list, p.deltas = nil, nil
	p.editRules(ns)
	if err := p.editClients(ctx, ns); err != nil {
		return nil, err
	}
	return p.list, nil
}

// add appends an edit of an object. body and revision are those of the stored object.
func (p *filePlan) add(e Edit, body []byte, revision int64) {
	e.base = revision
	p.list = append(p.list, e)
	p.deltas = append(p.deltas, Delta{e.Kind, e.ID, body, e.Body})
}

func (p *filePlan) editRules(ns *namespace) {
	missing := maps.Clone(ns.rules) // the rules that are not in the file
	for i := range p.doc.Rules {
		e := ruleEdit(p.doc.Rules[i])
		e.Path = "rules[" + strconv.Itoa(i) + "]"
		stored, exists := ns.rules[e.ID]
		delete(missing, e.ID)
		switch {
		case !exists:
			p.add(e, nil, control.Absent)
		case !bytes.Equal(stored.body, e.Body):
			p.add(e, stored.body, control.AnyRevision) // the commit checks the revision of the namespace
		}
	}
	if p.prune {
		for _, id := range slices.Sorted(maps.Keys(missing)) {
			p.add(Edit{Kind: control.KindRule, ID: id}, missing[id].body, control.AnyRevision)
		}
	}
}

func (p *filePlan) editClients(ctx context.Context, ns *namespace) error {
	inFile := make(map[string]bool, len(p.doc.Clients))
	for i := range p.doc.Clients {
		e := clientEdit(p.doc.Clients[i])
		e.Path = "clients[" + strconv.Itoa(i) + "]"
		inFile[e.ID] = true
		stored, err := ns.getClient(ctx, e.ID)
		switch {
		case err != nil:
			return err
		case stored == nil:
			p.add(e, nil, control.Absent)
		case !bytes.Equal(stored.Body, e.Body):
			p.add(e, stored.Body, stored.Revision)
		}
	}
	if !p.pruneClients {
		return nil
	}
	for o, err := range ns.allClients(ctx) {
		if err != nil {
			return err
		}
		if !inFile[o.ID] {
			p.add(Edit{Kind: control.KindClient, ID: o.ID}, o.Body, o.Revision)
		}
	}
	return nil
}

func (p *filePlan) summary() (deltas []Delta, unchanged int) {
	unchanged = len(p.doc.Rules) + len(p.doc.Clients)
	for i := range p.list {
		if p.list[i].Body != nil {
			unchanged--
		}
	}
	return p.deltas, unchanged
}

// getClient returns a client, or nil if it does not exist. It reads the database only if the client exists.
func (ns *namespace) getClient(ctx context.Context, id string) (*control.Object, error) {
	if _, exists := ns.clients.Get(id); !exists {
		return nil, nil
	}
	return ns.get(ctx, control.KindClient, id)
}

// allClients returns the clients of the namespace.
func (ns *namespace) allClients(ctx context.Context) iter.Seq2[*control.Object, error] {
	return control.All(ctx, ns.db, control.Query{Namespace: ns.name, Kind: control.KindClient, Limit: 5000})
}
