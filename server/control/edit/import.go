package edit

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"

	"github.com/headgate/headgate/server/control"
)

// Imported is the progress of an import of clients. It counts only committed changes.
type Imported struct {
	// Revision is the revision of the import's last change, or of the namespace if nothing had to change.
	Revision  int64 `json:"revision"`
	Clients   int   `json:"clients"`
	Created   int   `json:"created"`
	Updated   int   `json:"updated"`
	Deleted   int   `json:"deleted"`
	Unchanged int   `json:"unchanged"`
	// Changes are the revisions that the import has created.
	Changes []int64 `json:"changes,omitempty"`
}

func (i *Imported) addRevision(revision int64) {
	i.Revision = revision
	i.Changes = append(i.Changes, revision)
}

// Import creates or replaces clients in one change, and adds the result to the progress.
func (e *Editor) Import(ctx context.Context, change *control.Change, clients []Edit, progress *Imported) error {
	p := &importPlan{clients: clients}
	committed, err := e.commit(ctx, change, p, CommitOptions{})
	if err != nil {
		return err
	}
	progress.Clients += len(clients)
	progress.Created += p.created
	progress.Updated += p.updated
	progress.Unchanged += len(clients) - p.created - p.updated
	if committed {
		progress.addRevision(change.Revision)
	}
	return nil
}

// An importPlan creates or replaces clients. Each call of edits sets created and updated.
type importPlan struct {
	clients          []Edit
	created, updated int
}

func (p *importPlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	p.created, p.updated = 0, 0
	var edits []Edit
	for _, e := range p.clients {
		stored, err := ns.getClient(ctx, e.ID)
		switch {
		case err != nil:
			return nil, err
		case stored == nil:
			e.base = control.Absent
			p.created++
		case bytes.Equal(stored.Body, e.Body):
			continue
		default:
			e.base = stored.Revision
			p.updated++
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// Prune deletes clients whose IDs are not in keep, at most limit of them, and adds the result to the progress. It
// reports whether there are more such clients.
func (e *Editor) Prune(
	ctx context.Context, change *control.Change, keep *IDSet, limit int, progress *Imported,
) (more bool, err error) {
	p := &prunePlan{keep: keep, limit: limit}
	committed, err := e.commit(ctx, change, p, CommitOptions{})
	if err != nil {
		return false, err
	}
	if committed {
		progress.Deleted += p.deleted
		progress.addRevision(change.Revision)
	}
	return p.more, nil
}

// A prunePlan deletes clients. Each call of edits sets deleted and more.
type prunePlan struct {
	keep    *IDSet
	limit   int
	deleted int
	more    bool
}

func (p *prunePlan) edits(ctx context.Context, ns *namespace) ([]Edit, error) {
	var edits []Edit
	p.more = false
	for o, err := range ns.allClients(ctx) {
		if err != nil {
			return nil, err
		}
		if p.keep.contains(o.ID) {
			continue
		}
		if p.more = len(edits) == p.limit; p.more {
			break
		}
		edits = append(edits, deletion(control.KindClient, o.ID, o.Revision))
	}
	p.deleted = len(edits)
	return edits, nil
}

// An IDSet is a set of client IDs. To use less memory, it stores only their hashes, with a random seed. In the
// improbable case that two IDs have the same hash, Prune keeps a client that it should delete.
type IDSet struct {
	max    int
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

// NewIDSet returns a set of up to limit IDs.
func NewIDSet(limit int) *IDSet {
	return &IDSet{max: limit, seed: maphash.MakeSeed(), hashes: make(map[uint64]struct{})}
}

// A FullError means that an IDSet has its maximum number of IDs.
type FullError struct{ Max int }

func (e *FullError) Error() string { return fmt.Sprintf("more than %d ids", e.Max) }

// Add adds an ID, or returns a *FullError.
func (s *IDSet) Add(id string) error {
	if len(s.hashes) == s.max {
		return &FullError{s.max}
	}
	s.hashes[maphash.String(s.seed, id)] = struct{}{}
	return nil
}

// Len returns the number of IDs.
func (s *IDSet) Len() int { return len(s.hashes) }

func (s *IDSet) contains(id string) bool {
	_, ok := s.hashes[maphash.String(s.seed, id)]
	return ok
}
