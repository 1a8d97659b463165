// Package resp serves decisions to Redis clients, in RESP2 or RESP3.
//
//	CL.THROTTLE key max_burst count period [quantity]   decides like redis-cell, by a limit that the caller gives
//	HG.TAKE rule key [cost]                             decides by a rule of the engine
//	HG.PEEK rule key                                    returns the remaining units, and takes nothing
//	HG.RESET rule key                                   resets the consumption; needs a token
//	HG.RELEASE lease                                    frees the slot of a concurrency limit
//	HG.RENEW lease                                      holds the slot for another TTL
//
// and the commands that clients use to connect: PING, ECHO, HELLO, AUTH, CLIENT, COMMAND, CONFIG GET, INFO, SELECT,
// RESET, QUIT. docs/resp.md describes the replies.
//
// # Execution
//
// Each connection has a goroutine that reads, decides all complete commands, and writes all replies at once. With an
// in-process store a decision allocates nothing. With a remote store the decisions of a pipeline are concurrent; their
// replies come in the order of the commands, and all are complete before a command that is not a decision runs.
//
// Limits bound the resources of clients. A waiting connection holds no buffer except the bytes of an incomplete
// command.
package resp
