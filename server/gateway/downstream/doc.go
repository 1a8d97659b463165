// Package downstream is the side of a reverse proxy that serves clients: HTTP/1.1 here, HTTP/2 by package h2.
//
//	s := &downstream.Server{Handler: proxy, NetHTTP: &http.Server{Handler: proxy}, IdleTimeout: 2 * time.Minute}
//	err := s.Serve(listener)
//
// It serves nearly all requests itself, for much less than net/http needs (see BenchmarkServe), and leaves all others
// to net/http: it passes the connection on, with all bytes of the request, before it has acted on it. From then on the
// connection is net/http's. So requests that are unusual, old, malformed or too long get net/http's own responses.
//
// # Requests that are served here
//
// HTTP/2 is served with TLS if that negotiates it, and without TLS if the client begins with it and NetHTTP allows it.
// The rest of this comment is about HTTP/1.1; package h2 describes what differs for HTTP/2.
//
// Requests are HTTP/1.1, with or without TLS. The target begins with one slash and has no fragment. There is one Host.
// Header lines end with CR and LF, are not folded, and have valid names and values; the head has at most 16 KiB. There
// is no body, or one of a stated length. net/http gets connections with
//
//	HTTP/1.0, and bytes that are not HTTP
//	a request with Transfer-Encoding, Trailer, Expect or Upgrade
//	a Connection header with other values than close and keep-alive
//	CONNECT, an absolute target, or *
//	any request that net/http refuses, or reads differently; a fuzz test compares both
//
// One thing differs from net/http: after a request that states the length of its body in two ways, by Transfer-Encoding
// and Content-Length, or in HTTP/1.0 by Transfer-Encoding, the connection is closed (RFC 9112, 6.1).
//
// A handler gets an *http.Request as from net/http. When the handler has returned, the request, its header and the
// [ResponseWriter] are reused for the next request: a handler must not keep them, nor use them in goroutines that
// outlive it. Strings may be kept. A goroutine that still reads the body gets an error, and the context has ended.
//
// The context ends when the client disconnects. The connection is watched for that only once Done or AfterFunc of the
// context is called, because most requests have ended before, and watching needs a goroutine. As with net/http, the
// watch ends when the client sends its next request early, and begins only when the body has been read.
//
// # Responses
//
// They are as from net/http: Date; Content-Length for a body that is complete when the handler returns and was not
// flushed, else chunks; a detected Content-Type; announced and late trailers; interim responses; no body where none is
// allowed. A handler that writes less than its Content-Length, or panics, ends the connection. A short response is sent
// in one write. Headers are sorted, after the lines of ResponseWriter.SetHeaderLines.
//
// # Timeouts
//
// HeaderTimeout bounds the TLS handshake, and a request's header from its first byte on, or from the beginning of the
// connection for the first request. IdleTimeout bounds the wait for the next request. A handler bounds reading the body
// and writing the response by SetReadDeadline and SetWriteDeadline; without the latter WriteTimeout bounds how long a
// client may accept no bytes.
package downstream
