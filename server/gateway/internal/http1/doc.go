// Package http1 has the rules of HTTP/1.1 that both sides of the gateway need: where a head ends, how its fields are
// parsed and written, which fields concern one connection only, which may be trailers, and how chunks are read.
// Packages downstream and upstream do the reading and writing.
//
// The canonical form of a field name is the same as in net/http: X-Request-Id.
package http1
