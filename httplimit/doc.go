// Package httplimit is middleware for net/http: it limits requests, by a function or by rules, and reports
// the limits to clients.
//
//	store := memstore.MustNew(memstore.Options{})
//	defer store.Close()
//	limit := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
//		return r.Header.Get("X-User"), headgate.PerSecond(10)
//	})
//	return http.ListenAndServe(":8080", limit(mux))
//
// [By] limits without rules. [New] limits by the rules of an engine. The rest of this page is about New:
//
//	doc, err := file.Load("rules.yaml") // package rules/file
//	set, err := doc.Compile()
//	decide, err := engine.New(engine.Config{Rules: set, Store: store})
//	limit, err := httplimit.New(httplimit.Config{Engine: decide})
//
// limit is a func(http.Handler) http.Handler, which routers such as chi accept. examples/ shows it with chi, gin and
// echo.
//
// # Results
//
//	allowed            the next handler responds, and our fields are added to its header
//	over a limit       429, or 503 if the rule says so, with Retry-After and a problem (RFC 9457) as JSON
//	on_limit: delay    the request waits; if the client disconnects meanwhile, the next handler is not called
//	on_limit: drop     no response: the connection is closed; with HTTP/2, the stream is reset
//	blocked            403; also if the request lacks an attribute of a rule's key, or its client is not registered,
//	                   and the rule denies such requests
//	malformed          400: refused by identity.Attributes.Validate, or with contradictory key attributes
//	the store failed   by the rule's on_failure: allowed, or 503 with Retry-After
//
// A denied request never reaches the next handler. net/http notices that a waiting client has disconnected only if the
// request has no body, or the body was read.
//
// Our responses have Cache-Control: no-store. The type of a problem begins with
// https://iana.org/assignments/http-problem-types, except for about:blank:
//
//	over a limit                   #quota-exceeded, with the names of the policies as violated-policies
//	store failed, too many waiting #temporary-reduced-capacity
//	403 and 400                    about:blank
//
// # Header fields
//
// There are two sets of fields. [Fields] can turn off each of them. The fields of
// draft-ietf-httpapi-ratelimit-headers-11 report every limit that was checked:
//
//	RateLimit-Policy: "search/1";q=10;w=1, "search/hourly";q=1000;w=3600
//	RateLimit: "search/1";r=9;t=1, "search/hourly";r=412;t=4
//
//	name   the rule's id and, if several limits of the rule apply, the limit's name
//	q, w   Limit.Count in w seconds; w is omitted for a period that is not in whole seconds
//	r      the remaining units: more than q for a limit with a burst, 0 if more than the limit was consumed
//	t      seconds, rounded up, until more units are available; at most Retry-After. Omitted for a concurrency limit,
//	       unless it denies the request
//
// X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset report the tightest limit: its capacity, the rest, and
// when it is fully restored, in seconds since 1970 or, with [Fields.ResetDelta], from now. Retry-After is in seconds,
// rounded up and at least 1, and omitted for a request that can never be allowed.
//
// Shadow rules and limits that were not checked are not reported. A limit whose store was unreachable has a policy but
// no state. If a rule reads the cost from the response, r is based on the estimated cost.
//
// If the next handler sets RateLimit and RateLimit-Policy as well, its values follow ours. If it sets other fields
// that we set, ours replace them.
//
// A cost in the response is read from its trailer or else its header, when the handler has returned. Slots of
// concurrency limits are released then. Both happen once, even if the handler panics or has hijacked the connection.
//
// The fields need two allocations per request, and none if no limit is reported. The next handler gets a ResponseWriter
// with the same optional interfaces as the server's.
package httplimit
