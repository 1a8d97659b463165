// Package http1 has the rules of HTTP/1.1 that both sides of the gateway need: where a head ends, how its fields are
// parsed and written, which fields concern one connection only, which may be trailers, and how chunks are read.
// Packages downstream and upstream do the reading and writing.
//
// A name in canonical form is written as net/http does: X-Request-Id.
package http1
