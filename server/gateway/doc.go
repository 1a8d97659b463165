// Package gateway is the reverse proxy: it asks a limiter about each request, and forwards the allowed ones to
// upstreams.
//
//	g, err := gateway.New(gateway.Config{
//		Routes: []gateway.Route{{Upstreams: []gateway.Upstream{{URL: "http://127.0.0.1:9000"}}}},
//		Limit:  limiter, // func(http.Handler) http.Handler
//	})
//	if err != nil { ... }
//	err = g.Serve(ctx) // until ctx ends; then it drains
//
// # The path of a request
//
//	accept ─▶ admit ─▶ limit ─▶ send
//
//	accept reads HTTP/1.1 and HTTP/2, with or without TLS and the PROXY protocol. Package downstream serves
//	       HTTP/2 and plain HTTP/1.1, and net/http all other requests.
//	admit  removes hop-by-hop headers (RFC 9110 section 7.6.1) and those that only proxies may send, converts the path to
//	       its canonical form, finds the route, and gives the request an id. Ambiguous requests get a 400.
//	limit  is Config.Limit. A rejected request never reaches an upstream.
//	send   chooses an upstream and forwards the request: by package upstream to HTTP/1.1, by net/http to HTTP/2 and for
//	       upgrades. A request is retried on another upstream only if it cannot be processed twice.
//
// The limiter, the routes and the upstream see the same path, host and headers.
//
// # Headers
//
// X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto describe the client's connection, and also Forwarded if
// Config says so. If a trusted proxy sends them, the gateway adds to their values. If another client sends them, the
// gateway replaces them, and removes all other X-Forwarded-* headers and Config.OnlyFromProxies. It removes headers
// with an underscore in their name unless Config keeps them. It removes all these fields from trailers. Requests and
// responses have an id in X-Request-ID, which a trusted proxy may set.
//
// # Responses of the gateway itself
//
// They are problem+json (RFC 9457) and reveal nothing about the upstreams; the log has the details.
//
//	400  the request or its body is malformed
//	404  no route for the host and path
//	405  CONNECT, which would bypass limits, and TRACE, which would show headers that proxies have added
//	408  the body paused for too long, or is too slow (Config.BodyTimeout, MinBodyRate)
//	413  the body is too large (MaxBody)
//	429  too many uploads of the client (Route.UploadsPerClient)
//	431  the header is too large (MaxHeader)
//	502  the upstream is unreachable, closes the connection early, or sends invalid HTTP
//	503  no upstream is up, or all connections are in use; with Retry-After
//	504  the upstream does not respond in time
//
// OPTIONS * and OPTIONS with Max-Forwards: 0 get a 204, after the limiter. If an upstream fails after its response has
// begun, the client's connection is aborted, so that the response does not look complete. Requests that net/http
// refuses itself get its own responses, and are not counted, logged or limited. A client that has disconnected counts
// as 499.
//
// # Guarantees
//
// Every wait for a client or upstream has a timeout. Connections, upgrades, uploads, headers and log lines are bounded.
// Only protocols of Config.Upgrades are upgraded to; for a limiter an upgraded connection is one request. Shutdown
// fails no request that has arrived. A request that is not logged costs one allocation, for its id.
package gateway
