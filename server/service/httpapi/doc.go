// Package httpapi serves decisions over HTTP with JSON. It also serves forward-auth, for proxies that ask another
// server before they forward a request.
//
//	api, err := httpapi.New(httpapi.Config{Engine: decide, Identifier: id})
//	if err != nil { ... }
//	server, err := service.NewHTTP(service.HTTPConfig{Handler: api})
//	...
//	err = server.Serve(listener)
//
// # Endpoints
//
//	POST /v1/ratelimit           one decision: 200 if it is allowed, 429 if it is denied
//	POST /v1/ratelimit:batch     a list of decisions: 200, with a response for each in the same order
//	POST /v1/ratelimit:release   frees the slots of a concurrency limit, by the leaseId of a decision
//	POST /v1/ratelimit:renew     keeps these slots for another TTL
//	GET  /v1/forward-auth        the decision on a proxy's request, by its headers: 200, or 429
//	GET  /openapi.json           the description of this API, in OpenAPI 3.1
//
// docs/api.md has examples of each. Invalid calls get a problem (RFC 9457), with the line and column of a JSON error.
// Unknown and repeated fields are refused, so that a misspelt field is not silently ignored.
//
// # Trust
//
// Callers of POST are trusted: the client attributes they send are not verified. Protect the port with a Token and by
// the address it listens on. In forward-auth, only the headers of identity.Config.TrustedProxies are trusted.
//
// # Units and slots
//
// An allowed request has taken its cost. It keeps a slot of a concurrency limit until the lease is released or the TTL
// expires. The API reports delays, and the caller must wait; forward-auth waits itself. Some rules take the cost from
// the response to the request, which is unknown here: the rule's estimate is taken, unless the caller states a cost.
// Forward-auth does not know when a request ends, so it ignores concurrency limits.
package httpapi
