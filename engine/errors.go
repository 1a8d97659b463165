package engine

import "errors"

// Errors that callers distinguish with [errors.Is].
var (
	// ErrNoRule is returned for the id of a rule that is not in force.
	ErrNoRule = errors.New("engine: no such rule")
	// ErrNoClient is returned for the id of a client that is not registered.
	ErrNoClient = errors.New("engine: no such client")
	// ErrLease is returned for a text that is not a valid lease.
	ErrLease = errors.New("engine: invalid lease: want the output of Verdict.AppendLease")
)
