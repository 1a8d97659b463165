// Package downstream is the side of a reverse proxy that serves clients. It serves HTTP/1.1 itself, and HTTP/2 with
// package h2.
//
//	s := &downstream.Server{Handler: proxy, NetHTTP: &http.Server{Handler: proxy}, IdleTimeout: 2 * time.Minute}
//	err := s.Serve(listener)
//
// The server handles nearly all requests itself, with much less work than net/http (see BenchmarkServe). It leaves
// unusual, old, malformed and very long requests to net/http: it passes the connection, with all bytes of the request,
// to net/http before it has acted on the request. From then on, net/http serves the connection.
//
// # Requests that the server handles
//
// It serves HTTP/2 with TLS if the handshake negotiates HTTP/2 (ALPN). Without TLS, it serves HTTP/2 if the client
// sends the HTTP/2 preface and NetHTTP allows unencrypted HTTP/2. The rest of this comment is about HTTP/1.1; package
// h2 describes the differences for HTTP/2.
//
// The server handles an HTTP/1.1 request, with or without TLS, if all of this is true: The target begins with one slash
// and has no fragment. There is one Host header. Header lines end with CR and LF, are not folded, and have valid names
// and values. The head has at most 16 KiB. The body is empty, or Content-Length states its length. net/http gets
// connections with
//
//	HTTP/1.0, and bytes that are not HTTP
//	a request with Transfer-Encoding, Trailer, Expect or Upgrade
//	a Connection header with other values than close and keep-alive
//	CONNECT, an absolute target, or *
//	any request that net/http refuses, or reads differently; a fuzz test compares both
//
// There is one difference from net/http. A connection is closed after a request with both Transfer-Encoding and
// Content-Length, and after an HTTP/1.0 request with Transfer-Encoding (RFC 9112, 6.1).
//
// A handler gets the same *http.Request as from net/http. When the handler has returned, the request, its header and
// the [ResponseWriter] are reused for the next request. A handler must not keep them, or use them in goroutines that
// run after it has returned. It may keep their strings. A goroutine that still reads the body gets an error, and the
// context has ended.
//
// The context ends when the client disconnects. The server watches the connection only after the handler has called
// Done of the context, or context.AfterFunc, because watching needs a goroutine, and most handlers do not need it. As
// with net/http, the watch begins only when the body has been read, and it ends if the client sends its next request
// before the response.
//
// # Responses
//
// Responses are the same as those of net/http. They have a Date and a detected Content-Type. If the handler returns
// before any of the body was sent, the server sets Content-Length. Otherwise, unless the handler has set
// Content-Length, the body is sent in chunks. Handlers can send trailers, announced or not, and interim responses
// (1xx). If a handler writes less than its Content-Length, or panics, the connection is closed. A short response is
// sent in one write. The header begins with the lines of ResponseWriter.SetHeaderLines; the other fields follow, sorted
// by name.
//
// # Timeouts
//
// HeaderTimeout limits the TLS handshake and the time to receive the header of a request. That time begins with the
// first byte of the request or, for the first request, with the connection. IdleTimeout limits the wait for the next
// request. A handler can limit the time to read the body with SetReadDeadline, and the time to write the response with
// SetWriteDeadline. Without SetWriteDeadline, WriteTimeout limits how long a client may accept no bytes.
package downstream
