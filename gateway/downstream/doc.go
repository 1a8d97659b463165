// Package downstream is the leg of a reverse proxy that speaks HTTP/1.1 with its clients.
//
//	s := &downstream.Server{Handler: proxy, Rest: &http.Server{Handler: proxy}, IdleTimeout: 2 * time.Minute}
//	err := s.Serve(listener)
//
// It serves what nearly all requests are, for much less than they cost net/http (see BenchmarkServe), and leaves everything else to
// net/http: a connection is handed over, with all that was read of it, before anything of the request in question has been done. From
// then on it is net/http's. So there is one server more and not one protocol more: whatever is said about requests that are
// odd, old, malformed or too long is what net/http says.
//
// # What is served here
//
// Requests of HTTP/1.1, in the clear or over TLS, whose target begins with one slash and has no fragment, with one Host, with
// header lines that end in CR and LF, are not folded and have valid names and values, 16 KiB at most in all, and with a body
// of a length that is said, or none. net/http gets connections of HTTP/2, and those on which there comes
//
//	a request that has Transfer-Encoding, Trailer, Expect or Upgrade
//	a Connection that says more than close or keep-alive
//	CONNECT, a target in absolute form, or *
//	HTTP/1.0, and whatever is not HTTP
//	anything that net/http refuses, or reads in another way than it is read here
//
// That the last is true, a fuzz target shows. There is one thing that net/http does not do: a connection on which a request has
// said in two ways how long its body is, by Transfer-Encoding and Content-Length, or in HTTP/1.0 by Transfer-Encoding, ends with
// the answer (RFC 9112, 6.1).
//
// # Requests
//
// A handler gets an *http.Request as net/http makes it. When it has returned, the request is used for the next one, with its
// header, and so is the ResponseWriter: a handler must not keep them, nor use them in goroutines that it leaves behind. Strings may
// be kept. Who still reads the body, as a transport may that got its answer early, is told that it is closed; who asks the
// context, that it has ended.
//
// Its context ends when the client hangs up. Nobody looks for that until Done is called, or AfterFunc, since to look takes a
// goroutine and most requests are done before. As with net/http, a client who sends something after his request is not
// looked after any more, and one with a body is as soon as that was read.
//
// # Answers
//
// They are net/http's as well, and so is what is in them:
//
//	Date, if the handler has not said it
//	Content-Length, for a body that is complete when the handler returns and that nobody has flushed; else chunks
//	Content-Type by the look of the body, unless there is one
//	trailers, in both of the ways that net/http has, and interim answers
//	no body where there must be none
//
// A handler that has written less than it said, or panics, ends the connection. Head and body go out in one write if they are
// short. Headers are sorted, behind lines that were given as they are sent. For those the ResponseWriter has the methods
// HeaderLines, SetHeaderLines and TakeHeaderLine: they spare a map, and are not in Header.
//
// # Time
//
// HeaderTimeout bounds the handshake of TLS and how long a request's header may take from its first byte on, and IdleTimeout how
// long the next request may take to begin; the first has HeaderTimeout for both. A deadline is not set again for each request,
// but when the last one has passed, if it was too early. What may pass while a body is read or an answer is written is up to
// the handler, by SetReadDeadline and SetWriteDeadline; without the latter, WriteTimeout is how long a client may take nothing.
package downstream
