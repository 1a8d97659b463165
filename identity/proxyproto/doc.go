// Package proxyproto reads the PROXY protocol, versions 1 and 2, in which a load balancer that forwards TCP connections
// names their client.
//
//	inner, err := net.Listen("tcp", ":8080")
//	if err != nil {
//		return err
//	}
//	listener, err := proxyproto.NewListener(inner, proxyproto.Config{Trusted: balancers})
//	if err != nil {
//		return err
//	}
//	return server.Serve(listener)
//
// Package identity then reads the client's address from the connection. With TLS, wrap this listener in the TLS
// listener: the header precedes the handshake.
//
// A connection from a network in Config.Trusted must begin with a header, or it is closed. On other connections no
// header is read, as the specification demands; an HTTP server then rejects the header as invalid HTTP.
//
// A header with LOCAL or UNKNOWN, as in health checks, or with a Unix socket names no client: the connection then has
// the address of the load balancer. TLVs of version 2, including its checksum, are skipped.
//
// The header must arrive within Config.Timeout, and have at most Config.MaxHeader bytes. The first call of Read,
// RemoteAddr or LocalAddr reads it, not Accept, so that a silent load balancer does not block others. Do not call
// RemoteAddr or LocalAddr in the functions ConnState and ConnContext of http.Server: they run in the goroutine that
// accepts connections.
//
// The implementation is a few hundred lines, which are fuzzed. It imports nothing outside of the standard
// library.
package proxyproto
