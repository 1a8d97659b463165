// Package httplimit is middleware for net/http: it lets requests pass as the rules say, and tells clients of their limits.
//
//	store, err := memstore.New(memstore.Options{})
//	...
//	doc, err := file.Load("rules.yaml")
//	...
//	set, err := doc.Compile()
//	...
//	decide, err := engine.New(engine.Config{Rules: set, Store: store})
//	...
//	limit, err := httplimit.New(httplimit.Config{Engine: decide})
//	...
//	http.ListenAndServe(":8080", limit(mux))
//
// It is a func(http.Handler) http.Handler, as routers such as chi take it; examples/ has one for each of chi, gin and echo.
//
// # What becomes of a request
//
//	allowed            the next handler answers, and our fields are put into its header
//	over its limit     429, or 503 if the rule says so, with Retry-After and a problem (RFC 9457) as JSON
//	... and delayed    it waits for its turn; who hangs up gives his place back and is not served
//	... and dropped    no answer: the connection is closed; of HTTP/2, where others share it, the stream is reset
//	blocked            403, and so for those that lack the attributes of a rule's key and for clients that must be registered
//	malformed          400: what identity.Attributes.Malformed does not take, or a rule counts by what is there several times
//	the store failed   as the rule's on_failure says: allowed, or 503 with Retry-After
//
// A request that is not served never reaches the next handler. That a client who waits has hung up, net/http notices if the
// request has no body; otherwise only when the body was read, which is up to the next handler.
//
// Answers of ours are not cached: they say Cache-Control: no-store. The type of a problem is
// https://iana.org/assignments/http-problem-types#quota-exceeded for who is over a limit, and it has violated-policies with
// the names that these have in RateLimit-Policy; it is #temporary-reduced-capacity there if the store failed or too many are
// waiting already, and about:blank for 403 and 400.
//
// # What clients are told
//
// Two dialects, each of which [Fields] can turn off. Those of draft-ietf-httpapi-ratelimit-headers-11 tell of every limit
// that was asked:
//
//	RateLimit-Policy: "search/1";q=10;w=1, "search/hourly";q=1000;w=3600
//	RateLimit: "search/1";r=9;t=1, "search/hourly";r=412;t=4
//
//	name   the rule's id and, where the rule has several limits, the limit's name
//	q, w   how many may pass (Limit.Count) in how many seconds; w is left out for a period that is not in whole seconds
//	r      how many could still be taken. It can be above q for a limit with a burst, and is 0 for one in debt
//	t      in how many seconds, rounded up, there is more; never later than Retry-After. For a bucket that is when its next
//	       unit comes, for a fixed window when it ends, for windows that slide an estimate of at most the period. For
//	       concurrency it is left out, unless it denies
//
// X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset tell of the tightest limit alone: the most that can be taken
// at once, how much is left, and when it will be as good as new, in seconds since 1970 or, with [Fields.ResetDelta], from now.
//
// Retry-After is in seconds, rounded up and at least 1, and not there for a request that would never pass.
//
// Rules in the shadow are never told of, nor are limits that were not asked because an earlier one denied. Of a limit whose
// store could not be asked there is the policy but no state: nobody knows it. Without a limit to tell of there are no fields.
// What a request costs that a response says is not known yet when they are sent, so r is what is left after the estimate.
//
// A handler may limit by itself, or be a proxy before a service that does. RateLimit and RateLimit-Policy are lists, so what
// it says there stays, behind ours. Of the others there can be only one, and it is ours: they tell of the gate that the
// client meets first.
//
// # After the answer
//
// A cost that the response says is read from its header or, which counts more, its trailer, when the handler has returned.
// Places under concurrency limits are released then. Both happen once, also if the handler panics or has taken the
// connection over: a handler that serves a WebSocket should return when the socket is closed.
//
// # What it costs
//
// A request that no rule matches, or whose limits are not told of, costs no allocation; one that is told of them, or rejected,
// two. The next handler gets the server's own ResponseWriter unless there is something to tell, and otherwise one that can
// do what the server's can: flush, hijack, read from files, push, and all that http.ResponseController has.
//
// Of a rejection, most of the time goes to how net/http writes a header. A server that must stand a flood can spare it with
// [Listener]. One that is not net/http's, as the gateway's, may take our fields as they are sent: its ResponseWriter then has
// the methods HeaderLines and SetHeaderLines, and there is neither an allocation nor a writer around it. If it knows who is asking
// by the same Identifier, it may say so with a method Identified.
package httplimit
