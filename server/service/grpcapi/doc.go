// Package grpcapi serves decisions over gRPC. The service headgate.v1.RateLimiter decides by rules: single requests,
// batches or a stream of requests. The service headgate.v1.Store, if enabled, gives access to the store. Package client
// calls both services.
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
// With Config.Token, every call except Health.Check must have the metadata "authorization: Bearer TOKEN". Calls without
// it get Unauthenticated before their messages are read. Without Config.Token, calls that reset counters are refused.
//
// # Trust
//
// Callers are trusted: the client attributes they send are not verified. Protect the port with Config.Token, with
// TLS.ClientCAFile, and by the address it listens on.
//
// # The store
//
// headgate.v1.Store is served only with Config.Store. Its callers choose their own keys and limits. Their keys are
// separate from the keys of rules: no call can read, change or reset the counters of rules.
//
// # Resource limits
//
// Config limits connections, streams per connection, the size of headers, messages and batches, and the rate of pings.
// Requests on a stream are read only as fast as the client reads their responses. Received data takes at most
// MaxMessage per open call.
//
// # Undelivered responses
//
// If a response cannot be sent because the caller has disconnected, its slots of concurrency limits are freed
// immediately. If a response is lost on the network, its slots are freed when they expire.
//
// # Shutdown
//
// During Shutdown, Health reports NOT_SERVING, new connections and calls are refused, and open calls are completed. On
// streams, the requests that were already read are completed. Streams then end with Unavailable, which tells clients to
// use another server.
package grpcapi
