package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/headgate/headgate/control"
)

// maxTries is how often a change is held against the namespace again because others changed it meanwhile.
const maxTries = 20

// A request is a change that somebody asks for.
type request struct {
	change *control.Change // without its ops
	// match, if it is given, is what the namespace's revision has to be.
	match condition
	// edits returns what is to be done to the space as it is. None is no change.
	edits func(ctx context.Context, sp *space) ([]edit, error)
	// diff, if any, says what edits has returned last, for who was thinking of another revision.
	diff func() string
	// dryRun commits nothing.
	dryRun bool
}

// commit makes a change if nothing is wrong with what the namespace would be then. It returns false if there is nothing to
// change, or it was a dry run.
func (s *Server) commit(ctx context.Context, r request) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	sp := s.spaces.get(r.change.Namespace)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for try := 1; ; try++ {
		if err := sp.refresh(ctx, s.config.DB); err != nil {
			return false, err
		}
		if r.match.given && !r.match.holds(sp.last) {
			return false, r.stale(ctx, sp)
		}
		edits, err := r.edits(ctx, sp)
		if err != nil || len(edits) == 0 {
			return false, err
		}
		undo, err := sp.try(edits)
		if err != nil {
			return false, err
		}
		r.change.Base = sp.last
		r.change.Ops = make([]control.Op, len(edits))
		for i := range edits {
			r.change.Ops[i] = control.Op{Kind: edits[i].kind, ID: edits[i].id, Base: edits[i].base, Body: edits[i].body}
		}
		if r.dryRun {
			undo()
			return false, r.change.Validate() // as the database would
		}
		err = s.config.DB.Commit(ctx, r.change)
		if err == nil {
			sp.mark, sp.last = control.MarkOf(r.change.Revision, r.change.Time), r.change.Revision
			s.committed(r.change)
			return true, nil
		}
		undo()
		var conflict *control.Conflict
		if !errors.As(err, &conflict) || try == maxTries {
			return false, err // if it was committed after all, the next to come sees it
		}
		// Others were faster: what they did may be what is wrong with this now.
	}
}

// stale returns the problem of a caller who was thinking of another revision of the namespace.
func (r *request) stale(ctx context.Context, sp *space) error {
	p := fail(http.StatusPreconditionFailed, "Somebody else was faster: the namespace %s is at revision %d.", sp.name, sp.last)
	p.Current = revised{sp.last}
	if r.diff != nil {
		if _, err := r.edits(ctx, sp); err != nil {
			return err
		}
		text := r.diff()
		p.Diff = &text
	}
	return p
}

// warm loads the namespaces that there are, so that the first who changes one need not wait for that.
func (s *Server) warm() {
	names, err := s.config.DB.Namespaces(s.ended)
	for _, name := range names[:min(len(names), maxSpaces)] {
		if name == systemNamespace || s.ended.Err() != nil {
			continue
		}
		sp := s.spaces.get(name)
		sp.mu.Lock()
		err = errors.Join(err, sp.refresh(s.ended, s.config.DB))
		sp.mu.Unlock()
	}
	if err != nil && s.ended.Err() == nil {
		s.config.Logger.Warn("rules service: a namespace is loaded when it is changed", "err", err.Error())
	}
}

// committed tells of a change.
func (s *Server) committed(c *control.Change) {
	s.hub.poke()
	s.hooks.announce(c.Namespace, c.Revision, c.Time)
}
