package api

import (
	"context"
	"time"
)

// MaxImportPruned is the maximum number of clients in an import with ?prune.
const MaxImportPruned = maxImportPruned

// SetImportChunk sets the number of clients per change of an import.
func (s *Server) SetImportChunk(n int) { s.importChunk = n }

// SetImportPruned sets the maximum number of clients in an import with ?prune.
func (s *Server) SetImportPruned(n int) { s.importPruned = n }

// SetKeepAlive sets the interval of comments in streams.
func (s *Server) SetKeepAlive(d time.Duration) { s.keepAlive = d }

// SetMaxNodes sets the maximum number of nodes.
func (s *Server) SetMaxNodes(n int) { s.nodes.SetMax(n) }

// EvaluateAlerts evaluates the conditions of alerts now, which happens every few seconds anyway.
func (s *Server) EvaluateAlerts(ctx context.Context) error { return s.alerts.Evaluate(ctx) }

// Watchers returns the number of watchers.
func (s *Server) Watchers() int { return s.hub.Watchers() }
