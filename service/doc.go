// Package service is what the protocols of the decision service have in common: the token that they ask for, and how a
// server of HTTP is bounded.
//
// The protocols are packages of their own: httpapi (HTTP with JSON, and forward-auth for proxies), grpcapi (gRPC), envoyrls
// (Envoy's rate limit service) and resp (that of Redis). All of them ask one engine.
package service
