// Package upstream is the side of a reverse proxy that sends requests to the service behind it, over HTTP/1.1.
//
//	p, err := upstream.New(upstream.Config{Address: "10.0.0.7:8000"})
//	if err != nil { ... }
//	defer p.Close()
//	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//		outcome, err := p.Forward(r.Context(), w, r, upstream.Head{Target: path})
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
// The caller sets the target, the host and some headers with a [Head]; the other headers are copied from the client's
// request. Forward does not send hop-by-hop fields (RFC 9110 section 7.6.1). It sends Content-Length if the length of
// the body is known, and otherwise sends the body in chunks. It refuses a method, target, host, header name or header
// value that servers could parse in different ways.
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
//   - a line ends without a carriage return (in trailers only)
//   - there are both Content-Length and Transfer-Encoding
//   - the Transfer-Encoding is other than chunked, or an HTTP/1.0 response has one
//   - the response is not HTTP/1
//   - the status line is invalid: its status is below 100 or has a sign, or it contains a control character
//   - too many interim responses precede the response
//   - the status is 101 Switching Protocols
//
// Config.MaxHeaderBytes limits the size of the head and the trailers. Forward removes hop-by-hop fields, and trailers
// that may not be merged into the header, such as Set-Cookie. It passes on interim responses (1xx), except 100
// Continue. It flushes a body of unknown length or of type text/event-stream each time before it waits for more of the
// body.
//
// If a response ends early after its head was passed on, Forward returns an error, and Outcome.Sent is true. The caller
// must then panic with http.ErrAbortHandler to abort the client's connection. If the upstream sends bytes after the end
// of a response, the connection is closed, so that these bytes never become part of the next response.
//
// # Connections
//
// A request uses the idle connection that was used last, unless bytes have arrived on it meanwhile. If the upstream
// closes a reused connection before any part of a response has arrived, the request is sent again on a new connection.
// This requires that its body is not streamed, and that no part of it was sent or it is idempotent (GET, HEAD, OPTIONS,
// TRACE, PUT, DELETE, or any method with an Idempotency-Key).
//
// Config.MaxConns is the maximum number of connections. Config.MaxWaiting is the maximum number of requests that wait
// for a connection, and Config.WaitTimeout the time that each may wait. The request that has waited longest gets the
// next free connection.
//
// # Timeouts
//
// Config.DialTimeout is the maximum time to connect, Config.HeaderTimeout is the maximum wait for a response, and
// Config.StallTimeout limits each wait within a body. The http.Server sets the timeouts of the client's connection.
// When the context ends, Forward closes the connection to the upstream. To save work on quick responses, it calls
// context.AfterFunc only when no response has arrived for 20 to 40 ms; with TLS or a streamed body it calls it before
// it sends the request.
package upstream
