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
// A [Pool] has the connections to one upstream. [Pool.Forward] sends a request on one of them, reads the response, and
// passes it on to an http.ResponseWriter, all in the goroutine of the request. Only a request whose body is streamed
// has a second goroutine, because an upstream may respond before it has read the body. HTTP/2 and upgrades are for
// net/http.
//
// # Requests
//
// The caller sets the target, the host and some headers by a [Head]; the rest is the client's. Hop-by-hop fields (RFC
// 9110 section 7.6.1) are not sent, and the framing is our own: Content-Length if the length is known, else chunks. A
// method, target, host, name or value that could be read in two ways is refused.
//
// A body of known length up to Config.BufferBody is sent with the head in one write. Others are sent as they arrive,
// with their trailers. With Expect: 100-continue the body is sent when the upstream asks for it, or after
// Config.ExpectTimeout. If the response arrives before all of the body is sent, it is passed on; the rest of the body
// is not sent, and both connections are closed.
//
// # Responses
//
// They are parsed as strictly as by net/http, and more strictly where parsers are known to differ. Unlike net/http,
// Forward refuses a response, with 502, if
//
//	a header is folded over several lines
//	the name of a header is invalid: it has a space before the colon or in it
//	a line ends without a carriage return, among the trailers
//	there are both Content-Length and Transfer-Encoding
//	the Transfer-Encoding is not just chunked: in HTTP/1.0 there can be none
//	the response is not HTTP/1
//	the status line is invalid: a status below 100 or with a sign, or a control character
//	too many interim responses
//	101 Switching Protocols
//
// Config.MaxHeaderBytes bounds the head and the trailers. Hop-by-hop fields are removed, and so are trailers that may
// not be merged into the header, such as Set-Cookie. Interim responses are passed on, except 100 Continue. A body of
// unknown length, or of type text/event-stream, is flushed before each wait for more.
//
// If a response breaks off after its head was passed on, Forward returns an error and Outcome.Sent: the caller must
// abort the client's connection by panicking with http.ErrAbortHandler. A connection with bytes left after a response
// is closed, so they never become part of the next one.
//
// # Connections
//
// The one that was used last is used next, if nothing has arrived on it meanwhile. A request whose connection the
// upstream closes at that moment is sent again on a new one if no response has arrived, and it is idempotent (GET,
// HEAD, OPTIONS, TRACE, PUT, DELETE, or with an Idempotency-Key) or no part of it was sent. Config.MaxConns bounds the
// connections, and Config.MaxWaiting and Config.WaitTimeout the requests that wait for one, first come first served.
//
// # Timeouts
//
// Config.DialTimeout bounds connecting, Config.HeaderTimeout the wait for a response, and Config.StallTimeout each wait
// in a body. The server bounds the client. When the context ends, the connection is closed; the context is watched only
// once a response takes longer than 20 to 40 ms, by context.AfterFunc, without a goroutine.
package upstream
