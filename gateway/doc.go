// Package gateway is the reverse proxy: it stands before services, has a limiter decide about each request, and sends on what
// that lets pass.
//
//	g, err := gateway.New(gateway.Config{
//		Routes: []gateway.Route{{Upstreams: []gateway.Upstream{{URL: "http://127.0.0.1:9000"}}}},
//		Limit:  limiter, // func(http.Handler) http.Handler
//	})
//	if err != nil { ... }
//	err = g.Serve(ctx) // until ctx ends; then it drains
//
// # The way of a request
//
//	front ─▶ admit ─▶ limit ─▶ send
//
//	front  HTTP/1.1 and HTTP/2, with TLS or without, perhaps behind the PROXY protocol. Plain requests of HTTP/1.1 are served by
//	       package downstream, and whatever else comes by net/http's server, to which it hands connections over. Only front.go
//	       and listener.go know them.
//	admit  removes headers that are for one connection only (RFC 9110 section 7.6.1), those that Connection names too, before
//	       anybody reads them (but for an upgrade that will be made, of which the limiter sees Upgrade with that one protocol);
//	       brings the path into its canonical form; finds the route; gives the request an id.
//	limit  Config.Limit. What it rejects never touches an upstream.
//	send   picks an upstream and sends the request there by its leg: that of package upstream for HTTP/1.1, net/http's for
//	       HTTP/2 and upgrades.
//
// The limiter, the routes and the upstream see the same path, host and headers: what could be read in two ways is refused,
// with 400, or sent on in the one way in which it was read. Identity's rules say what a path may be. What stands in a query
// and has no place there is escaped.
//
// # What upstreams are told
//
// X-Forwarded-For, -Host and -Proto say who is connected to us, which host he asked for, and whether by TLS. What trusted
// proxies have said stays, with their list continued; what others have said is replaced, and all other X-Forwarded-* of theirs
// removed, with what Config.OnlyFromProxies names. Forwarded is treated likewise, but sent only if a trusted proxy does, or if
// Config says so. Headers with underscores are removed, as many services take them for those with hyphens. Trailers may
// hold none of these, whoever sends them, nor a header that tells who is asking. The Host is the client's unless the route says
// otherwise.
//
// Each request has an id, in X-Request-ID. That of a trusted proxy is kept if it is at most 128 letters, digits and -_.:/+=@~;
// otherwise one is made. The answer has it too.
//
// # Methods
//
// CONNECT is refused with 405, as a tunnel would pass all limits by, and so is TRACE, whose echo would tell the client what
// proxies have added. OPTIONS * is about the server on the whole, which the gateway is: it answers 204 itself, after the
// limiter. So it does if Max-Forwards of an OPTIONS has come to 0. All other methods are sent on, known or not.
//
// # Answers of the gateway's own
//
// They are problem+json (RFC 9457) and say nothing about what is behind the gateway; the log does, once a second, and the
// access log of each.
//
//	400  the request is malformed, or its body is
//	404  there is no route for its host and path
//	405  CONNECT, TRACE
//	408  its body stopped, or is too slow (Config.BodyTimeout, MinBodyRate)
//	413  its body is too large (MaxBody), whether it says so or not
//	431  its header is too large (MaxHeader)
//	502  the upstream cannot be reached, breaks off, or says what is not HTTP
//	503  no upstream is up, or all connections are in use; with Retry-After
//	504  the upstream does not answer in time
//
// If an upstream fails when its answer has begun, the client's connection is aborted (in HTTP/2 the stream is reset), so that
// the answer never looks complete. What net/http itself refuses is answered by it in plain text, without an id, and the
// connection closed; it is not counted, logged or limited: requests that are not HTTP (400), a header of more than twice
// MaxHeader (431), a transfer coding that is unknown (501), a version (505) or an expectation (417). A header that does not
// arrive in time is not answered at all.
//
// A client that has gone is counted as 499, whatever was to be answered. One that has closed its side of the connection only
// cannot be told from it.
//
// A request that has both a Content-Length and chunks is read by its chunks alone, as RFC 9112 allows, and sent on without
// the length.
//
// # Slow clients
//
// Every wait for a client is bounded: for the handshake and the header (HeaderTimeout), the next request (IdleTimeout), the
// next bytes of a body (BodyTimeout) and its rate on the whole (MinBodyRate), and for him to take what is sent (WriteTimeout).
// Streams may be silent for StreamTimeout: calls of gRPC, a body once its answer has begun, an answer that is flushed, and
// upgraded connections. Connections beyond MaxConns are closed at once.
//
// # Upgrades
//
// A client may switch to the protocols that Config.Upgrades names, websocket by default, over HTTP/1.1 and without a body. Only
// when the upstream has answered 101 to the same protocol do bytes pass unseen; any other answer is an ordinary one. What asks
// for another protocol goes on as a request without Upgrade: h2c, above all, would carry requests past the limiter. To a
// limiter an upgraded connection is one request, which is over when the connection is; MaxUpgradeAge bounds how long that is.
//
// # Upstreams
//
// Those of a route take turns. One is left out while its health checks fail; if all do, the answer is 503 at once. One is also
// left out for a while when requests fail there in a row. Who is back gets its share slowly. A request is tried on another
// upstream only if nothing of it was sent, or if it may be repeated, has no body, and no answer came.
//
// # Shutting down
//
// Shutdown makes Ready false and goes on for DrainDelay, in which load balancers can see that; then it accepts no more, but for
// what has connected already. Every answer from then on says Connection: close, or GOAWAY. Connections without a request stay
// for DrainLinger, since a request may be on its way. Requests in flight are finished, upgraded connections have UpgradeGrace.
// A client that knows nothing of Ready and connects at the very moment at which a listener closes is reset by the system; so
// is one that sends a request on a connection which was idle for all of DrainLinger.
//
// # Certificates
//
// Their files are read again every TLS.CheckFiles, and by Reload. New connections get new certificates; bad files change
// nothing and the log says so once.
//
// # The cost
//
// On its way through the gateway a request allocates its id and little else: what is known of it is in one object that is used
// again, the limiter gets that object as its ResponseWriter, and headers are added where the request is written out. Headers of
// the answer go from the upstream, and from a limiter that can (httplimit does), straight to where they are sent, unless
// somebody wants to read them; and a limiter that goes by the same Identity as the gateway is told what that has found. The access
// log costs what is not logged one counter, and is written by a goroutine of its own, from a queue that drops rather than waits.
package gateway
