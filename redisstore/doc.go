// Package redisstore implements headgate.Limiter in Redis: on one server, behind sentinels, or in a cluster.
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
// the time. The maxmemory-policy should be noeviction: if Redis evicts the key of a client, the client's consumption is
// lost and its full limit is available again. Open checks this and other settings that break limits; see
// [Store.Warnings].
//
// # When servers fail
//
// A call that was sent and got no response fails with [ErrNoResponse]. It may have taken units, so it is never sent
// again. A call that was not sent, because there is no connection, fails with [ErrUnreachable]. A call is sent again
// only if the server replied that it did nothing, either because another server has the key (MOVED, ASK) or because the
// server is not ready (TRYAGAIN, LOADING, CLUSTERDOWN). Such calls are sent again until their deadline.
//
// All calls return when their context ends, so give them a deadline. If 64 calls in a row get no response from a
// server, calls to it fail at once until it responds again. The store has one pipelined connection to each server. It
// restores lost connections until it is closed.
//
// The store follows failovers. In a cluster or behind sentinels it uses the new primary soon after the failover. A
// single server must be named by a host name: the store uses the new server once the name resolves to it.
package redisstore
