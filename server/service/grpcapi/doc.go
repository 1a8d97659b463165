// Package grpcapi serves decisions over gRPC: headgate.v1.RateLimiter decides by rules, one request at a time, in
// batches or on a stream; headgate.v1.Store, if enabled, gives access to the store. Package client calls both.
//
//	server, err := grpcapi.New(grpcapi.Config{Engine: decide, Token: token})
//	if err != nil { ... }
//	server.Register(envoy.Register) // other services on the same port
//	go func() { err := server.Serve(listener) ... }()
//	...
//	err = server.Shutdown(ctx)
//
// The protos in proto/headgate/v1 define the status codes. A denial is a response, not an error.
//
// # Other services
//
// grpc.health.v1.Health reports SERVING until Shutdown, for "" and for each service. Its Check needs no token, so that
// container platforms can call it. Reflection (v1 and v1alpha) lists the services for tools like grpcurl.
//
// # Tokens
//
// With Config.Token every call except Health.Check must have the metadata "authorization: Bearer TOKEN"; others end
// with Unauthenticated before they are read. Without any token, resets are refused.
//
// # Trust
//
// Callers are trusted: the client attributes they send are not verified. Protect the port with Config.Token, with
// TLS.ClientCAFile, and by the address it listens on.
//
// # The store
//
// headgate.v1.Store is offered only with Config.Store. Its callers choose their own keys and limits. Their keys are
// separate from the keys of rules: no call can read, consume or reset what rules count.
//
// # Bounds
//
// Config bounds connections, streams per connection, the size of headers, messages and batches, and the rate of pings.
// Requests on a stream are read only as fast as the client reads their responses. Received data takes at most
// MaxMessage per open call.
//
// # Undelivered responses
//
// Slots of a concurrency limit are freed immediately if the response cannot be sent because the caller has
// disconnected: for single requests, batches, streams and the store. A slot whose response is lost on the network is
// freed when it expires.
//
// # Shutdown
//
// Health reports NOT_SERVING, new connections and calls are refused, open calls are completed, and so are the stream
// requests already read. Streams then end with Unavailable, which tells clients to use another server.
package grpcapi
