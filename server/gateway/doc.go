// Package gateway is a reverse proxy that passes each request to a limiter, and forwards allowed requests to upstreams.
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
//	accept reads HTTP/1.1 and HTTP/2, with or without TLS and the PROXY protocol. Package downstream serves HTTP/2 and
//	       common HTTP/1.1 requests; net/http serves all other requests.
//	admit  removes hop-by-hop headers (RFC 9110 section 7.6.1) and headers that only proxies may send, converts the path
//	       to its canonical form, finds the route, and gives the request an id. Ambiguous requests get a 400.
//	limit  calls Config.Limit. A rejected request never reaches an upstream.
//	send   chooses an upstream and forwards the request. Package upstream sends requests to HTTP/1.1 upstreams; net/http
//	       sends requests to HTTP/2 upstreams, and upgrades. A failed request is retried on another upstream only if
//	       the retry is safe; see Route.Retries.
//
// The limiter, the routes and the upstream see the same path, host and headers.
//
// # Headers
//
// X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto describe the client's connection. The gateway can also send
// Forwarded (RFC 7239). If a trusted proxy sends these headers, the gateway adds to their values. If another client
// sends them, the gateway replaces them; it also removes all other X-Forwarded-* headers and the headers in
// Config.OnlyFromProxies. It removes headers with an underscore in their name unless Config.KeepUnderscores is set. All
// these fields are also removed from trailers. Requests and responses have an id in X-Request-ID, which a trusted proxy
// may set.
//
// # Responses of the gateway itself
//
// Errors of the gateway are problem+json (RFC 9457) and reveal nothing about the upstreams; the log has the details.
//
//	400  the request or its body is malformed
//	404  no route for the host and path
//	405  CONNECT, which would bypass limits, and TRACE, which would show headers that proxies have added
//	408  the body paused for too long, or is too slow (Config.BodyTimeout, MinBodyRate)
//	413  the body is too large (MaxBody)
//	429  the client has too many uploads (Route.UploadsPerClient)
//	431  the header is too large (MaxHeader)
//	502  the upstream is unreachable, closes the connection early, or sends invalid HTTP
//	503  no upstream is up, or all connections are in use; with Retry-After
//	504  the upstream does not respond in time
//
// If the limiter allows them, OPTIONS * and OPTIONS with Max-Forwards: 0 get a 204 from the gateway. If an upstream
// fails after its response has begun, the gateway aborts the client's connection, so that the response does not look
// complete. If net/http refuses a request before it calls the gateway, net/http responds, and the request is not
// counted, logged or limited. If the client disconnects before the response, logs and metrics have the status 499.
//
// # Guarantees
//
// Every wait for a client or upstream has a timeout. Connections, upgrades, uploads, headers and log lines are bounded.
// Connections are upgraded only to the protocols in Config.Upgrades; a limiter counts an upgraded connection as one
// request. Shutdown fails no request that has arrived. The gateway makes one allocation for a request that is not
// logged: its id.
package gateway
