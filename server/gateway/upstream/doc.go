// Package upstream is the side of a reverse proxy that speaks HTTP/1.1 with the service behind it.
//
//	p, err := upstream.New(upstream.Config{Address: "10.0.0.7:8000"})
//	if err != nil { ... }
//	defer p.Close()
//	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//		out, err := p.Forward(r.Context(), w, r, upstream.Head{Target: path})
//		...
//	})
//
// A [Pool] holds the connections to one upstream. [Pool.Forward] sends a request on one of them, reads the response,
// and passes it on to an http.ResponseWriter, all in the goroutine that serves the request. Only a request whose body
// is streamed needs a second goroutine, because an upstream may respond before it has read the body. HTTP/2 and
// upgrades to other protocols are not supported; the gateway uses net/http for them.
//
// # Requests
//
// The caller sets the target, the host and some headers with a [Head]; the rest is copied from the client's request.
// Hop-by-hop fields (RFC 9110 section 7.6.1) are not sent, and Forward frames the body itself: with Content-Length if
// the length is known, else in chunks. A method, target, host, header name or header value that servers could parse in
// different ways is refused.
//
// A body of known length up to Config.MaxBufferedBody is sent with the head in one write. Other bodies are sent as they
// arrive, with their trailers. With Expect: 100-continue the body is sent when the upstream asks for it, or after
// Config.ExpectTimeout. If the response is complete before all of the body is sent, the rest of the body is not sent,
// and both connections are closed.
//
// # Responses
//
// Responses are parsed as strictly as by net/http, and more strictly where parsers are known to differ. Unlike
// net/http, Forward refuses a response, with status 502, if
//
//   - a header is folded over several lines
//   - the name of a header is invalid: it contains a space, or a space precedes the colon
//   - a line ends without a carriage return, within the trailers
//   - there are both Content-Length and Transfer-Encoding
//   - the Transfer-Encoding is not just chunked, or an HTTP/1.0 response has one
//   - the response is not HTTP/1
//   - the status line is invalid: its status is below 100 or has a sign, or it contains a control character
//   - too many interim responses precede the response
//   - the status is 101 Switching Protocols
//
// Config.MaxHeaderBytes bounds the head and the trailers. Hop-by-hop fields are removed, and so are trailers that may
// not be merged into the header, such as Set-Cookie. Interim responses are passed on, except 100 Continue. A body of
// unknown length, or of type text/event-stream, is flushed before each wait for more.
//
// If a response breaks off after its head was passed on, Forward returns an error, with Outcome.Sent true: the caller
// must abort the client's connection by panicking with http.ErrAbortHandler. If bytes are left on a connection after a
// response, the connection is closed, so that these bytes never become part of the next response.
//
// # Connections
//
// The connection used last is used next, unless something has arrived on it meanwhile. If the upstream closes a reused
// connection before any part of a response has arrived, the request is sent again on a new connection, provided that
// its body is not streamed, and that it is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE, or any method with an
// Idempotency-Key) or no part of it was sent. Config.MaxConns bounds the number of connections. Config.MaxWaiting and
// Config.WaitTimeout bound the number of requests that wait for a connection, and how long; they are served first come,
// first served.
//
// # Timeouts
//
// Config.DialTimeout bounds connecting, Config.HeaderTimeout the wait for a response, and Config.StallTimeout each wait
// within a body. Timeouts of the client's connection are up to the http.Server. When the context ends, the connection
// to the upstream is closed. To save work on quick responses, the context is watched, with context.AfterFunc, only from
// 20 to 40 ms after the request was sent; with TLS or a streamed body it is watched from the start.
package upstream
