package redisstore

import "github.com/headgate/headgate/redisstore/internal/topology"

// Classes of errors, for [errors.Is]. With any other error a server refused the call, and nothing was taken. If the
// memory of the server is full, that error is headgate.ErrFull.
var (
	// ErrUnreachable is returned if a call was not sent, because there is no connection to the server. Nothing was taken.
	ErrUnreachable = topology.ErrUnreachable
	// ErrNoResponse is returned if a call was sent and the server did not respond in time, or the connection broke. Units
	// may have been taken. The call is never sent again.
	ErrNoResponse = topology.ErrNoResponse
)

// A ServerError describes the problem of a server: the fields Server, Problem, Fix and Err are the server's address,
// the problem, how to fix it, and its cause. The method Refused reports whether the server works and only one key
// cannot be decided.
type ServerError = topology.ServerError
