// Package grpclimit has interceptors for servers of gRPC: they let calls pass as the rules say, and tell clients of their
// limits.
//
//	limit, err := grpclimit.New(grpclimit.Config{Engine: decide})
//	...
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.Unary),
//		grpc.ChainStreamInterceptor(limit.Stream),
//	)
//
// Rules see a call as the request of HTTP/2 that it is: its path is /package.Service/Method, its host the :authority, its
// method POST, and its metadata are headers.
//
// # What becomes of a call
//
//	allowed            the handler is called; RateLimit and the others of package httplimit are in the header
//	over its limit     ResourceExhausted or, if the rule's status is 503, Unavailable
//	... and delayed    it waits for its turn; who gives up gives his place back, and is not served
//	... and dropped    Unavailable and nothing else: what a client sees of a connection that was closed. A server of gRPC can
//	                   neither close the connection, which others share, nor end a stream without a status
//	blocked            PermissionDenied, also for clients that must be registered
//	without a key      Unauthenticated, if the rule says fallback: deny
//	malformed          InvalidArgument, also if a rule counts by what is there several times
//	the store failed   as the rule's on_failure says: allowed, or Unavailable
//
// A status of who is over a limit has a google.rpc.RetryInfo, which says exactly when to come back (it is left out if the call
// would never pass), and a google.rpc.QuotaFailure with the policies that deny. RateLimit, Retry-After and the others are in
// its trailer, which is all that a call has that is answered without a message.
//
// # Streams
//
// A stream is one call, which is decided when it opens; under a concurrency limit it has its place until it ends. With
// [Config.PerMessage] each message that the client sends is decided too. One that is denied ends the stream: RecvMsg returns
// the status to the handler, and the client gets it whatever error the handler makes of it. If a rule's cost is what the
// response says, messages pass only while there is some left, and the cost is taken when the stream ends.
//
// # After the call
//
// A cost that the response says (cost: { response_header: x-tokens-used }) is read from the trailer that the handler has set,
// or else the header. It is settled once, also if the handler panics.
package grpclimit
