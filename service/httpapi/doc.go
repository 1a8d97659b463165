// Package httpapi is the decision service over HTTP: it answers in JSON whether a client may go on, and it is what proxies
// ask that hand requests to another server first (forward-auth).
//
//	api, err := httpapi.New(httpapi.Config{Engine: decide, Identifier: id})
//	if err != nil { ... }
//	server, err := service.NewHTTP(service.HTTPConfig{Handler: api})
//	...
//	err = server.Serve(listener)
//
// # What there is
//
//	POST /v1/ratelimit           one decision: 200 if it passes, 429 if not
//	POST /v1/ratelimit:batch     a list of them: 200, with an answer for each in the same order
//	POST /v1/ratelimit:release   gives back the places of a concurrency limit, by the leaseId of a decision
//	GET  /v1/forward-auth        the decision of a request that a proxy has, by its headers: 200, or 429
//	GET  /openapi.json           the description of all this, in OpenAPI 3.1
//
// docs/api.md shows each of them. All that is wrong with a call is told as a problem (RFC 9457), with the line and column
// of JSON that cannot be read. Fields that are not known, and fields that are given twice, are refused: a limit that is
// misspelt must not be one that is not there.
//
// # Who is believed
//
// Callers of POST are services of one's own, so what they say of their clients is believed; keep others away from it with a
// Token and by where it listens. Of forward-auth it is what proxies say of requests: only those of
// identity.Config.TrustedProxies are believed.
//
// # What is taken, and given back
//
// A decision that passes has taken its cost. A place under a concurrency limit is held until it is released by its lease, or
// its TTL is over. A delay is reported, and it is the caller who waits. A cost that rules take from a response is not known
// here: the estimate stands, and whoever knows better gives a cost of his own. Forward-auth holds its answer instead of
// reporting a delay. It does not hear when a request has ended, so it leaves concurrency limits out.
package httpapi
