package engine

import "errors"

// Errors that callers distinguish with [errors.Is].
var (
	// ErrNoRule is returned for an id that no rule has.
	ErrNoRule = errors.New("engine: no such rule")
	// ErrNoClient is returned for an id that no client of Engine.AddClient has.
	ErrNoClient = errors.New("engine: no such client")
	// ErrLease is returned for a text that is not a valid lease.
	ErrLease = errors.New("engine: invalid lease: want the output of Verdict.AppendLease")
)
