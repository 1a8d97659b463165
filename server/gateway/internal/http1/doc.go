// Package http1 has the rules of HTTP/1.1 that both sides of the gateway need. It finds the end of a head, parses and
// writes header fields, recognizes hop-by-hop fields and forbidden trailers, and reads chunks. Packages downstream and
// upstream read from and write to connections.
//
// Field names have the canonical form of net/http, such as X-Request-Id.
package http1
