// Package client calls Headgate's decision service over gRPC. Package transport limits what a program
// sends to other services.
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
// A single call is sent immediately. Calls that arrive while others are under way wait until they are enough for a
// batch, at most Options.BatchWait. So calls of many goroutines cost little more than those of one. At most eight
// batches are under way at once; further calls wait for one of them. Batches are sent on streams that stay open while
// they are used, which takes less work than unary calls. An older service without such streams gets unary calls, and
// is tried again every ten seconds.
//
// # Unreachable service
//
// Calls end after Options.Deadline. RateLimit then decides by Options.OnFailure: it allows or denies, and the decision
// is Degraded. After five consecutive failures it decides immediately, and probes the service twice a second. An
// invalid call is an error of that call only: an unknown rule, an invalid token, texts that are not UTF-8 or too
// long. The caller's clients may cause such errors, so a caller that allows requests on an error can be bypassed.
//
// Failed decisions are not requested again, because the service may have counted them. Idempotent calls (Peek, a
// RateLimit of cost 0, Release, Renew, Reset) are sent once more if the connection broke. Calls that a closing
// server has not read are sent to another server.
//
// # Remote store
//
// [Client.Limiter] is a headgate.Limiter whose counters are in the service, with limits of the program instead of
// rules. The service has to offer it. It contains a guard: see package guard for its behavior while the service is
// unreachable.
package client
