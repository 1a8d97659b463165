// Package proxyproto reads the PROXY protocol, versions 1 and 2: by it a load balancer that passes on connections, and knows
// nothing of HTTP, tells who is connected to it.
//
//	listener, err := net.Listen("tcp", ":8080")
//	if err != nil { ... }
//	listener, err = proxyproto.NewListener(listener, proxyproto.Config{Trusted: balancers})
//	if err != nil { ... }
//	err = server.Serve(listener)
//
// Package identity then sees the client's address as that of the connection. With TLS, wrap this listener in that of TLS:
// the header comes before the handshake.
//
// # Who is believed
//
// A connection from a network in Config.Trusted must begin with a header. It is never guessed whether there is one, as the
// specification demands: without it the connection is closed. A connection from anywhere else has none. What looks like one
// is left for the server to read, to which it is not HTTP.
//
// A header that says LOCAL or UNKNOWN, as those of health checks do, or that names a socket of Unix, names no client: the
// connection is then the balancer's own. What version 2 adds beyond the addresses (TLVs) is skipped, its checksum too.
//
// # Bounds
//
// The header must arrive within Config.Timeout of the connection, and is at most Config.MaxHeader long. It is read by the
// first who reads, or asks for an address, and not by Accept, so that a balancer that says nothing holds up nobody else.
// Do not ask for addresses in http.Server's ConnState and ConnContext, which are called by the one goroutine that accepts.
//
// # Why not a library
//
// The protocol is some hundred lines, fuzzed here, and a program that imports them imports nothing else.
package proxyproto
