package redisstore

import "github.com/headgate/headgate/redisstore/internal/topology"

// Classes of errors, for [errors.Is]. Any other error means that a server refused the call, and nothing was taken. If
// the memory of the server is full, the error is headgate.ErrFull.
var (
	// ErrUnreachable is returned if a call was not sent, because there is no connection to the server. Nothing was taken.
	ErrUnreachable = topology.ErrUnreachable
	// ErrNoResponse is returned if a call was sent and the server did not respond in time, or the connection broke. Units
	// may have been taken. The call is never sent again.
	ErrNoResponse = topology.ErrNoResponse
)

// A ServerError describes a problem of a server: its address (Server), the problem (Problem), how to fix it (Fix), and
// the cause (Err). Refused reports whether the server works and has refused only this key.
type ServerError = topology.ServerError
