// Package grpclimit has interceptors for gRPC servers: they limit calls, by a function or by rules, and report the
// limits to clients.
//
//	limit := grpclimit.By(store, func(ctx context.Context, method string) (string, headgate.Limit) {
//		return userOf(ctx), headgate.PerSecond(10)
//	})
//	return grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream),
//	)
//
// [By] limits without rules. [New] limits by the rules of an engine. The following sections are about New.
//
// Rules see a call as its HTTP/2 request: its path is /package.Service/Method, its host the :authority, its method
// POST, and its metadata are headers.
//
// # Results
//
//	allowed            the handler is called; RateLimit and the other fields of package httplimit are in the header
//	over its limit     ResourceExhausted or, if the rule's status is 503, Unavailable
//	... and delayed    the call waits; if its context ends first, its units are given back, and it is not served
//	... and dropped    Unavailable without details: a gRPC server can neither close the connection, which calls
//	                   share, nor end a stream without a status
//	blocked            PermissionDenied, also for clients that must be registered
//	without a key      Unauthenticated, if the rule says fallback: deny
//	malformed          InvalidArgument, also with contradictory key attributes
//	the store failed   by the rule's on_failure: allowed, or Unavailable
//
// The status of a call over its limit has a google.rpc.RetryInfo with the exact time to wait, and a
// google.rpc.QuotaFailure with the policies that deny the call. RetryInfo is omitted if the call can never be allowed.
// RateLimit, Retry-After and the other fields are in the trailer, because a response without a message has no header.
//
// # Streams
//
// A stream is one call. It is decided when it opens, and holds its slots of concurrency limits until it ends. With
// [Config.PerMessage], each message of the client is decided, too. A denied message ends the stream: RecvMsg returns
// the status to the handler, and the client gets that status whatever error the handler returns. If the response states
// the cost under a rule, messages are allowed while units remain, and the cost is taken when the stream ends.
//
// # Costs
//
// A cost that the response states (cost: { response_header: x-tokens-used }) is read from the handler's trailer, or
// else its header. It is settled once, even if the handler panics.
package grpclimit
