// Package redisstore implements a headgate.Limiter that counts in Redis: in a single server, in a primary with
// sentinels, or in a cluster.
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
// The store needs Redis 6.0 or later, or Valkey, with Lua. Decisions use the server's clock, so the clocks of the
// store's hosts need not agree. The maxmemory-policy should be noeviction: if Redis evicts the key of a client, the
// client gets its full limit again. Open checks this and other settings that break limits, and [Store.Warnings] returns
// the results.
//
// # When servers fail
//
// A call that was sent and got no response fails with [ErrNoResponse]. It may have taken units, so it is never sent
// again. A call that was not sent, because there is no connection, fails with [ErrUnreachable]. A call is sent again
// only if the server replied that it did nothing, either because another server has the key (MOVED, ASK) or because the
// server is not ready (TRYAGAIN, LOADING, CLUSTERDOWN). Such a call is sent again until its deadline.
//
// All calls return when their context ends, so give the context a deadline. If 64 calls in a row get no response from a
// server, calls to this server fail at once until it responds again. The store has one pipelined connection to each
// server, and restores lost connections until the store is closed.
//
// The store follows failovers. In a cluster or behind sentinels, it uses the new primary soon after the failover. If
// the URL has a single server, it must have a host name: the store uses the new server when the name resolves to it.
package redisstore
