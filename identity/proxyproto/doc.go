// Package proxyproto reads the PROXY protocol, versions 1 and 2. With this protocol, a load balancer sends the address
// of the client in a header at the start of each TCP connection.
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
// Package identity then reads the client's address from the connection. The header precedes a TLS handshake, so wrap
// this listener in the TLS listener, not the reverse.
//
// A connection from a network in Config.Trusted must begin with a header, or it is closed. On other connections no
// header is read, as the specification demands. If a client sends one, an HTTP server rejects it as invalid HTTP.
//
// A header with LOCAL or UNKNOWN, as in health checks, or with a Unix socket has no client address. The connection then
// has the address of the load balancer. TLVs of version 2, including its checksum, are skipped.
//
// The header must arrive within Config.Timeout, and have at most Config.MaxHeader bytes. Accept does not read the
// header, because a silent load balancer would then block all other connections; the first call of Read, RemoteAddr or
// LocalAddr reads it. Do not call RemoteAddr or LocalAddr in the functions ConnState and ConnContext of http.Server,
// which run in the goroutine that accepts connections.
//
// The package imports nothing outside the standard library, and its parser is covered by fuzz tests.
package proxyproto
