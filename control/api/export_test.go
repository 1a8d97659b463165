package api

import (
	"strconv"
	"time"
)

// SetImportChunk sets how many clients are imported in one change.
func (s *Server) SetImportChunk(n int) { s.importChunk = n }

// SetImportPruned sets how many clients an import with ?prune may have.
func (s *Server) SetImportPruned(n int) { s.importPruned = n }

// PrunedIDs adds n ids to a set of those that an import with ?prune keeps, and returns it.
func PrunedIDs(n int) (any, error) {
	set := newIDSet(maxImportPruned)
	for i := range n {
		if err := set.add("client-" + strconv.Itoa(i)); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// SetWatchComment sets how often watchers are shown that the stream is alive.
func (s *Server) SetWatchComment(d time.Duration) { s.watchComment = d }

// SetMaxNodes sets how many nodes there may be.
func (s *Server) SetMaxNodes(n int) { s.beats.most = n }
