// Package httpapi serves decisions over HTTP and JSON, and for proxies that ask another server before they forward a
// request (forward-auth).
//
//	api, err := httpapi.New(httpapi.Config{Engine: decide, Identifier: id})
//	if err != nil { ... }
//	server, err := service.NewHTTP(service.HTTPConfig{Handler: api})
//	...
//	err = server.Serve(listener)
//
// # Endpoints
//
//	POST /v1/ratelimit           one decision: 200 if it passes, 429 if not
//	POST /v1/ratelimit:batch     a list of decisions: 200, with a response for each in the same order
//	POST /v1/ratelimit:release   frees the slots of a concurrency limit, by the leaseId of a decision
//	POST /v1/ratelimit:renew     holds them for another TTL
//	GET  /v1/forward-auth        the decision on a proxy's request, by its headers: 200, or 429
//	GET  /openapi.json           the description of this API, in OpenAPI 3.1
//
// docs/api.md shows each of them. Invalid calls get a problem (RFC 9457), with the line and column of JSON that cannot
// be read. Unknown and repeated fields are refused, so that a misspelt limit is not silently ignored.
//
// # Trust
//
// Callers of POST are trusted: the client attributes they send are not verified. Protect the port with a Token and by
// the address it listens on. In forward-auth, only the headers of identity.Config.TrustedProxies are trusted.
//
// # Units and slots
//
// A passing decision has taken its cost. A slot of a concurrency limit is held until its lease is released or its TTL
// expires. Delays are reported, and the caller waits. Costs that rules take from a response are unknown here: the
// estimate counts, unless the caller gives a cost. Forward-auth waits instead of reporting a delay. It does not learn
// when a request ends, so it ignores concurrency limits.
package httpapi
