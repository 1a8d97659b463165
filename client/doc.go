// Package client calls Headgate's decision service over gRPC. To limit the requests that a program sends to other
// services, see package transport.
//
//	c, err := client.New(client.Options{Address: "127.0.0.1:8082", Token: token})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	decision, err := c.RateLimit(ctx, client.Request{User: "alice", Attributes: map[string]string{"path": "/search"}})
//	if err != nil || !decision.Passed {
//		return err // or respond with 429
//	}
//
// # Batches
//
// A call is sent immediately if no other call is under way. Otherwise it waits until there are enough calls for a
// batch, but not longer than Options.BatchWait. At most eight batches are under way at once; further calls wait until
// one of them returns. Batches are sent on streams that stay open while they are used, because a message on a stream
// takes less work than a unary call. If an older service does not support such streams, batches are sent as unary
// calls, and streams are tried again every ten seconds.
//
// # Unreachable service
//
// A call fails after Options.Deadline. RateLimit then allows or denies the request as Options.OnFailure says, and sets
// Degraded in the decision. After five consecutive failures, RateLimit does so without calling the service, except for
// a probe twice a second.
//
// Invalid calls return an error and do not count as failures: an unknown rule, an invalid token, and texts that are too
// long or not UTF-8. Clients of the caller may send such texts, so a caller that allows requests after an error can be
// bypassed.
//
// Idempotent calls (Peek, a RateLimit of cost 0, Release, Renew, Reset) are sent once more if the connection broke.
// Other failed calls are not sent again, because the service may have counted them. A call that a closing server has
// not read is sent to another server.
//
// # Remote store
//
// [Client.Limiter] returns a headgate.Limiter that keeps its counters in the service. The program chooses the limits,
// and the rules of the service do not apply. The service must offer the gRPC service headgate.v1.Store. A guard decides
// while the service is unreachable, see package guard.
package client
