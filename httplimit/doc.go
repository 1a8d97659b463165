// Package httplimit provides middleware for net/http that limits requests and reports the limits to clients.
//
//	store := memstore.MustNew(memstore.Options{})
//	defer store.Close()
//	limit := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
//		return r.Header.Get("X-User"), headgate.PerSecond(10)
//	})
//	return http.ListenAndServe(":8080", limit(mux))
//
// [By] limits by a function. [New] limits by the rules of an engine. The rest of this page is about New:
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
//	allowed            the next handler responds, and the middleware adds its fields to the header
//	over a limit       429 or, if the rule says so, 503, with Retry-After and a JSON problem (RFC 9457)
//	on_limit: delay    the request waits; if the client disconnects meanwhile, the next handler is not called
//	on_limit: drop     no response: the connection is closed; with HTTP/2, the stream is reset
//	blocked            403
//	unidentified       403 if the request lacks an attribute of a rule's key and the rule has fallback: deny
//	unregistered       403 if the client is not registered and the rule has unregistered: deny
//	malformed          400 if identity.Attributes.Validate refuses the request, or key attributes contradict each other
//	the store failed   the rule's on_failure decides: the request is allowed, or gets 503 with Retry-After
//
// A denied request never reaches the next handler. net/http notices that a waiting client has disconnected only if the
// request has no body, or the body was read.
//
// Responses of the middleware have Cache-Control: no-store. The type of a problem is about:blank, or begins with
// https://iana.org/assignments/http-problem-types:
//
//	over a limit                   #quota-exceeded, with the names of the policies as violated-policies
//	store failed, too many waiting #temporary-reduced-capacity
//	403 and 400                    about:blank
//
// # Header fields
//
// The middleware sets two sets of fields, each of which [Fields] can turn off. The first is that of
// draft-ietf-httpapi-ratelimit-headers-11, which reports every limit that was checked:
//
//	RateLimit-Policy: "search/1";q=10;w=1, "search/hourly";q=1000;w=3600
//	RateLimit: "search/1";r=9;t=1, "search/hourly";r=412;t=4
//
//	name   the rule's id and, if several limits of the rule apply, the limit's name
//	q, w   the limit admits q units in w seconds; w is omitted for a period that is not in whole seconds
//	r      the remaining units; they can exceed q if the limit has a burst, and are 0 for a key in debt
//	t      seconds, rounded up, until more units are available; at most Retry-After. Omitted for a concurrency limit,
//	       unless it denies the request
//
// The second set reports only the tightest limit. X-RateLimit-Limit is its capacity, X-RateLimit-Remaining the number
// of remaining units, and X-RateLimit-Reset the time at which all units are restored, in seconds since 1970 or, with
// [Fields.ResetDelta], from now. Retry-After is in seconds, rounded up and at least 1. It is omitted for a request that
// can never be allowed.
//
// Shadow rules and limits that were not checked are not reported. A limit whose store was unreachable is listed in
// RateLimit-Policy, but not in RateLimit. If a rule reads the cost from the response, r is based on the estimated cost.
//
// If the next handler sets RateLimit and RateLimit-Policy too, its values follow those of the middleware. Other fields
// of the middleware replace those of the handler.
//
// # After the response
//
// When the next handler has returned, the middleware reads a cost from the response's trailer or, if it has no such
// trailer, from its header, and releases slots of concurrency limits. It does so once, even if the handler panics or
// has hijacked the connection.
//
// The next handler gets a ResponseWriter with the same optional interfaces as the server's.
package httplimit
