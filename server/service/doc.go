// Package service has code that the protocols of the decision service share: token checks, TLS, and an HTTP server with
// limits on connections, sizes and durations. The decision service is a server that other programs ask whether a
// request may pass.
//
// Each protocol has its own package: httpapi (HTTP with JSON, and forward-auth for proxies), grpcapi (gRPC), envoyrls
// (Envoy's rate limit service) and resp (the Redis protocol). All use the same engine.Engine, which decides by rules.
package service
