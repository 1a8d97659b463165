// Package redisstore is the store for a fleet: a headgate.Limiter that counts in Redis, on one server, behind sentinels, or
// in a cluster.
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Options{})
//	if err != nil { ... }
//	defer store.Close()
//	d, err := store.Take(ctx, headgate.Check{Key: user, Limit: headgate.PerSecond(10), Cost: 1})
//
// # Servers
//
// Redis from 6.0 on, or Valkey, with Lua. Decisions go by the server's clock, so hosts need not agree on the time. Its
// maxmemory-policy should be noeviction: one that evicts keys lets clients start again. Open looks for that and some other
// settings that break limits; see [Store.Warnings].
//
// # When servers fail
//
// A call is sent once. One that was sent and not answered may have counted, and is never sent again: that is
// [ErrUnanswered]. [ErrAway] is the error of a call that was not sent, as there is no connection. A call is sent on, and
// again, only where a server has said that it did nothing: that another has the key (MOVED, ASK), or that it is not ready
// (TRYAGAIN, LOADING, CLUSTERDOWN); that goes on until the call's deadline.
//
// All calls return when their context ends, whatever the servers do, so give them a deadline. A server that leaves some
// dozens of calls in a row unanswered is left alone: calls then fail at once, until it answers again. There is one
// connection to each server, on which calls are pipelined; it is made again for as long as the store is open.
//
// Failovers are followed: those of a cluster and of sentinels within a moment of their end; that of a lone server behind a
// name when the name leads to the new one.
package redisstore
