// Package grpcapi is the decision service over gRPC: headgate.v1.RateLimiter decides by rules, one request at a time, in
// batches or on a stream, and headgate.v1.Store, where it is offered, hands out the store itself. Package client calls both.
//
//	server, err := grpcapi.New(grpcapi.Config{Engine: decide, Token: token})
//	if err != nil { ... }
//	server.Register(envoy.Register) // other services on the same port
//	go func() { err := server.Serve(listener) ... }()
//	...
//	err = server.Shutdown(ctx)
//
// proto/headgate/v1 has the protos, and says which status means what. A denial is an answer and no error.
//
// # What else is served
//
// grpc.health.v1.Health says SERVING until Shutdown, of "" and of each service by its name. It asks for no token, so that
// whoever starts containers can ask it. Reflection (v1 and v1alpha) tells callers such as grpcurl what there is.
//
// # Tokens
//
// With Config.Token every call but those of Health must have the metadata "authorization: Bearer TOKEN"; others end with
// Unauthenticated before anything is read of them. Verbs that reset what was consumed are refused where there is no token.
//
// # Who is believed
//
// Callers are services of one's own, so what they say of their clients is believed. Keep others away from the port with
// Config.Token, with TLS.ClientCAFile, and by where it listens.
//
// # The store
//
// headgate.v1.Store is not offered unless Config.Store is given. Who may call it brings his own keys and limits: that is a
// store for other processes, and as much of it as they like. Its keys are apart from those of rules: no call can see, use up
// or reset what rules count.
//
// # What bounds it
//
// Connections, streams of a connection, the size of headers, messages and batches, and how often clients may ping are
// bounded by Config. Requests on a stream are read only as fast as the client reads their answers. Memory for what was
// received is at most MaxMessage for each call under way.
//
// # Answers that nobody gets
//
// Places under a concurrency limit are free again at once if their answer cannot be sent, as the caller has gone: whether it
// was asked for alone, in a batch, on a stream or from the store. One that is lost on its way is free when its time is over.
//
// # Shutdown
//
// Health says NOT_SERVING, no new connection or call is taken, and calls under way are answered, as are requests on streams
// that were read. Streams then end with Unavailable, which tells clients to go elsewhere.
package grpcapi
