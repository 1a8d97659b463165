// Package topology is the Redis client of redisstore: it knows which server has which keys, on one server, behind
// sentinels or in a cluster, and keeps one connection to each of them.
//
// A command is sent once. It is sent again only after a server replied that it did nothing: that another server has the
// key (MOVED, ASK), or that it is not ready (TRYAGAIN, LOADING, CLUSTERDOWN). A command that was sent and got no
// response fails with [ErrNoResponse], since it may have been executed. A command that was not sent, because there is
// no connection, fails with [ErrUnreachable].
//
// A [Client] keeps a [Map] from slots to servers. It reads the map again every second, after a redirection, and while a
// primary is unreachable. A [Server] has one pipelined connection, made by a goroutine of its own, so callers never
// wait for a dial and always return when their context ends.
package topology
