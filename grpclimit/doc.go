// Package grpclimit provides interceptors that limit the calls of a gRPC server. The limits come from a function or
// from rules. Interceptors for rules also report the limits to clients.
//
//	limit := grpclimit.By(store, func(ctx context.Context, method string) (string, headgate.Limit) {
//		return userOf(ctx), headgate.PerSecond(10)
//	})
//	return grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream),
//	)
//
// [By] gets the limits from a function, as above. [New] gets them from the rules of an engine. The following sections
// describe New.
//
// Rules see a call as its HTTP/2 request: its path is /package.Service/Method, its host the :authority, its method
// POST, and its metadata are headers.
//
// # Results
//
//	allowed            the handler is called; RateLimit and the other fields of package httplimit are in the header
//	over its limit     ResourceExhausted or, if the rule's status is 503, Unavailable
//	delayed by a rule  the call waits; if its context ends first, its units are given back, and it is not served
//	dropped by a rule  Unavailable without details: a gRPC server cannot close the connection, because other calls
//	                   use it, and cannot end a stream without a status
//	blocked            PermissionDenied, also for clients that must be registered
//	without a key      Unauthenticated, if the rule says fallback: deny
//	malformed          InvalidArgument, also if a key attribute has contradictory values
//	the store failed   allowed or Unavailable, as on_failure of the rule says
//
// The status of a call over its limit has a google.rpc.RetryInfo with the exact time to wait, and a
// google.rpc.QuotaFailure with the policies that deny the call. RetryInfo is omitted if the call can never be allowed.
// RateLimit, Retry-After and the other fields are in the trailer, because a response without a message has no header.
//
// # Streams
//
// A stream is one call. It is decided when it opens, and holds its slots of concurrency limits until it ends. With
// [Config.PerMessage], each message of the client is decided, too. A denied message ends the stream: RecvMsg returns
// the status to the handler, and if the handler returns any error, the client gets that status. If a rule takes its
// cost from the response, messages are allowed while units remain, and the cost is taken when the stream ends.
//
// # Costs
//
// A rule can take the cost from the response, as in cost: { response_header: x-tokens-used }. Such a cost is read from
// the handler's trailer, or from its header if the trailer has none. It is taken once, even if the handler panics.
package grpclimit
