// Package resp is the decision service for clients of Redis: any of them can ask for decisions, in RESP2 or RESP3.
//
//	CL.THROTTLE key max_burst count period [quantity]   decides as redis-cell does, by the limit that the caller names
//	HG.TAKE rule key [cost]                             decides by a rule of the engine
//	HG.PEEK rule key                                    says what remains, and takes nothing
//	HG.RESET rule key                                   forgets what was consumed; needs a token
//	HG.RELEASE lease                                    gives back the place of a concurrency limit
//
// and what clients say to begin with: PING, ECHO, HELLO, AUTH, CLIENT, COMMAND, CONFIG GET, INFO, SELECT, RESET, QUIT. See
// docs/resp.md for the answers.
//
// # How it is served
//
// A connection is a goroutine that reads what there is, decides every whole command in it, and writes all answers at once.
// On a store that counts in this process a decision allocates nothing. On one behind a network the decisions of a pipeline
// are in flight together; their answers come in the order of the commands, and all are there before a command that is no
// decision is looked at.
//
// What a client can hold is bounded by Limits. A connection that waits holds no buffer, only what has come of a command.
package resp
