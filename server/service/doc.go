// Package service has the parts that the protocols of the decision service share: tokens, TLS and a bounded HTTP
// server.
//
// Each protocol is a package: httpapi (HTTP with JSON, and forward-auth for proxies), grpcapi (gRPC), envoyrls
// (Envoy's rate limit service) and resp (the Redis protocol). All of them use one engine.
package service
