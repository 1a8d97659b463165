package api

import "time"

// SetImportChunk sets how many clients are imported in one change.
func (s *Server) SetImportChunk(n int) { s.importChunk = n }

// SetWatchComment sets how often watchers are shown that the stream is alive.
func (s *Server) SetWatchComment(d time.Duration) { s.watchComment = d }

// SetMaxNodes sets how many nodes there may be.
func (s *Server) SetMaxNodes(n int) { s.beats.most = n }
