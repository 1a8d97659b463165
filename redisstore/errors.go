package redisstore

import "github.com/headgate/headgate/redisstore/internal/topology"

// Classes of errors, for [errors.Is]. Errors of neither class were refused by a server and took nothing. If a server's
// memory is full, the error is headgate.ErrFull.
var (
	// ErrUnreachable is returned if a call was not sent, because there is no connection to the server. Nothing was taken.
	ErrUnreachable = topology.ErrUnreachable
	// ErrNoResponse is returned if a call was sent and the server did not respond in time, or the connection broke. Units
	// may have been taken. The call is never sent again.
	ErrNoResponse = topology.ErrNoResponse
)

// A ServerError says in Server, Problem, Fix and Err which server has which problem, how to fix it, and its cause. Its
// method Refused reports whether the server works and only one key cannot be decided.
type ServerError = topology.ServerError
