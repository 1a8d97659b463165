// Package upstream is the leg of a reverse proxy that speaks HTTP/1.1 with the service behind it.
//
//	p, err := upstream.New(upstream.Config{Address: "10.0.0.7:8000"})
//	if err != nil { ... }
//	defer p.Close()
//	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//		out, err := p.Forward(r.Context(), w, r, upstream.Head{Target: path})
//		...
//	})
//
// A [Pool] has the connections to one upstream. [Pool.Forward] writes a request to one of them, reads the response, and passes
// it on to an http.ResponseWriter, all in the goroutine of the request. There is none for a connection. Only a request whose
// body is not sent at once has a second goroutine while it lasts, since an upstream may answer before it has read the body.
// HTTP/2 and upgrades are for net/http's Transport.
//
// # A request
//
// The caller says the target, the host and headers of its own in a [Head]; the rest is the client's. Nothing goes out that is
// for one connection only (RFC 9110 section 7.6.1), and how the request ends is said by us alone: by Content-Length where
// the length is known, else by chunks. A method, target, host, name or value that could be read in two ways is refused.
//
// A body of known length up to Config.BufferBody is collected, and goes out with the head in one write. A longer one, or one
// of unknown length, is passed on piece by piece as it comes, with its trailers. One that the client sends only when told to
// (Expect: 100-continue) is asked for when the upstream does, or says nothing for Config.ExpectTimeout.
//
// If the response comes before the body is complete, it is passed on. What is then left of the body nobody wants any more, and
// both connections are closed afterwards: what follows on them could be taken for something else.
//
// # A response
//
// It is read as strictly as net/http does, and where parsers are known to differ more strictly. Refused with 502, unlike there:
//
//	a header is folded over several lines
//	a header's name is not valid: it has a space before the colon or in it
//	a line ends without a carriage return, among the trailers
//	there are both Content-Length and Transfer-Encoding
//	the Transfer-Encoding is not just chunked: in HTTP/1.0 there can be none
//	the response is not of HTTP/1
//	the status line is not valid: a status below 100 or with a sign, or a control character
//	too many interim responses
//	101 Switching Protocols
//
// The head and the trailers are bounded by Config.MaxHeaderBytes. Trailers that no recipient may merge into the head, such as
// Set-Cookie, are left out, and so is all that concerns the connection only. No Content-Type is guessed.
//
// Interim responses are passed on, but 100 Continue, which net/http says itself. A body of known length is passed on with that
// length, so that nothing has to be put into chunks; one that is whole when it is first looked at needs no flush either. Where
// the length is not known, or the type is text/event-stream, the client gets what there is before we wait for more.
//
// A response that breaks off after its head was passed on is an error with Outcome.Sent: the caller must end the client's
// connection by panicking with http.ErrAbortHandler, or the client may take it for complete. Bytes that follow a response never
// become part of the next one: a connection with anything left on it is closed.
//
// # Connections
//
// The one that was used last is used next. Before that, a look into its socket reports whether the upstream has ended it or sent
// something unasked. A request is still lost now and then, when the upstream closes just as it is sent. It is sent once more
// on a new connection if nothing came back and doing it twice does no harm: the method is idempotent (GET, HEAD, OPTIONS,
// TRACE, PUT, DELETE), it has an Idempotency-Key, or nothing of it was sent. A body must be whole for that.
//
// Config.MaxConns bounds the connections, Config.MaxWaiting and Config.WaitTimeout those who wait for one, first come first
// served. Idle ones are looked at every few seconds.
//
// # Time
//
// Everything has a bound: Config.DialTimeout, Config.HeaderTimeout from when the request is sent, and Config.StallTimeout for
// each step of a body. What the client does is bounded by the server in front. If the context ends, the connection is closed.
// Most responses come within 20 ms, so the context is watched only when one takes longer, 40 ms at most: by context.AfterFunc,
// without a goroutine.
package upstream
