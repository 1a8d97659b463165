// Package topology is the Redis client of redisstore. It sends each command to the server that has the command's key.
// It supports single servers, servers with sentinels, and clusters.
//
// A command that was sent and got no response fails with [ErrNoResponse]; the server may have executed it. A command
// that was not sent, because there is no connection, fails with [ErrUnreachable]. A command is sent again only if the
// server replied that it did nothing, either because another server has the key (MOVED, ASK) or because the server is
// not ready (TRYAGAIN, LOADING, CLUSTERDOWN, MASTERDOWN).
//
// A [Client] keeps a [Map] from hash slots to servers. It reads the map again every second, after a redirection, and
// while a primary is unreachable. A [Server] has one pipelined connection. A separate goroutine makes the connection,
// so callers never wait for a dial and always return when their context ends.
package topology
