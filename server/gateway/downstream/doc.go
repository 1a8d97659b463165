// Package downstream is the side of a reverse proxy that serves clients: HTTP/1.1 here, HTTP/2 by package h2.
//
//	s := &downstream.Server{Handler: proxy, NetHTTP: &http.Server{Handler: proxy}, IdleTimeout: 2 * time.Minute}
//	err := s.Serve(listener)
//
// It serves nearly all requests itself, with much less work than net/http (see BenchmarkServe). It leaves all other
// requests to net/http: it passes the connection to net/http, with all bytes of the request, before it has acted on the
// request. From then on, net/http serves the connection. So requests that are unusual, old, malformed or too long get
// the responses of net/http.
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
// The context ends when the client disconnects. The server watches the connection only after Done or AfterFunc of the
// context was called, because watching needs a goroutine, and most handlers do not need it. As with net/http, the watch
// begins only when the body has been read, and it ends if the client sends its next request before the response.
//
// # Responses
//
// Responses are the same as those of net/http. They have a Date and a detected Content-Type. A body that is complete
// when the handler returns and was not flushed has a Content-Length; other bodies are sent in chunks. There can be
// announced and late trailers, and interim responses. If a handler writes less than its Content-Length, or panics, the
// connection ends. A short response is sent in one write. Headers are sorted, after the lines of
// ResponseWriter.SetHeaderLines.
//
// # Timeouts
//
// HeaderTimeout limits the time of the TLS handshake, and the time of a request's header: from its first byte on or,
// for the first request, from the beginning of the connection. IdleTimeout limits the wait for the next request. A
// handler can limit the times to read the body and to write the response with SetReadDeadline and SetWriteDeadline.
// Without SetWriteDeadline, WriteTimeout limits how long a client may accept no bytes.
package downstream
