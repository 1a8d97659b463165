// Package resp serves decisions to Redis clients, in RESP2 or RESP3.
//
//	CL.THROTTLE key max_burst count period [quantity]   decides by the limit in the arguments, like redis-cell
//	HG.TAKE rule key [cost]                             decides by a rule of Config.Engine
//	HG.PEEK rule key                                    returns the remaining units without taking any
//	HG.RESET rule key                                   resets the counters of a client; needs a token
//	HG.RELEASE lease                                    frees a slot of a concurrency limit
//	HG.RENEW lease                                      keeps such a slot for another TTL
//
// A lease is the identifier of a slot; it is part of the reply to HG.TAKE. The server also supports MULTI, EXEC and
// DISCARD, and the commands that clients send when they connect, such as HELLO, AUTH and CLIENT. docs/resp.md describes
// all commands and their replies.
//
// # Execution
//
// Each connection has a goroutine that reads commands, executes all complete ones, and writes their replies together.
// With an in-process store, a decision allocates no memory. With a remote store, the decisions of a pipeline are made
// concurrently. Their replies are still sent in the order of the commands, and a command that is not a decision runs
// only after all decisions in front of it are made.
//
// [Limits] has the maximum resources that clients can use. On Linux, a waiting connection without TLS holds no buffer
// except the bytes of an incomplete command.
package resp
