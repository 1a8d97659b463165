// Package redisstore is a headgate.Limiter that counts in Redis, on one server, behind sentinels or in a cluster.
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Options{})
//	if err != nil {
//		return headgate.Decision{}, err
//	}
//	defer store.Close()
//	perUser := headgate.MustBind(store, headgate.PerSecond(10))
//	return perUser.Take(ctx, user, 1)
//
// # Servers
//
// The store needs Redis 6.0 or later, or Valkey, with Lua. Decisions use the server's clock, so hosts need not agree on
// the time. The maxmemory-policy should be noeviction: if keys are evicted, their clients start again. Open checks this
// and other settings that break limits; see [Store.Warnings].
//
// # When servers fail
//
// A call is sent once. A call that was sent and got no response may have counted, and is never sent again; its error is
// [ErrNoResponse]. A call that was not sent, because there is no connection, fails with [ErrUnreachable]. A call is
// sent again only if a server replied that it did nothing: that another server has the key (MOVED, ASK), or that it is
// not ready (TRYAGAIN, LOADING, CLUSTERDOWN). This is repeated until the call's deadline.
//
// All calls return when their context ends, so give them a deadline. When some dozens of calls in a row get no response
// from a server, calls to it fail at once until it responds again. The store has one pipelined connection to each
// server, and reconnects until it is closed.
//
// Failovers are followed: in a cluster or behind sentinels soon after their end, and for one server behind a name once
// the name leads to the new server.
package redisstore
