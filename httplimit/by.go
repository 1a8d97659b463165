package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/bykey"
)

// Exempt is the limit that the function limitOf of [By] returns for a request that is not limited. No Limiter accepts
// it.
var Exempt = bykey.Exempt()

// By returns a middleware that limits requests by a function instead of rules. limitOf returns the key and the limit of
// a request. Each request takes one unit. Requests over the limit get status 429 and the headers of [WriteHeaders].
// Requests with an empty key share one counter, so that clients without a name are limited too. If limitOf returns
// [Exempt], the request is not limited. If it returns the zero Limit, the request is refused, because a missing map
// entry should not exempt a client by accident.
//
// Use each key with one limit only: middlewares with different limits that share a limiter need different keys. See
// [headgate.Bind].
//
// If the limiter fails, the request is allowed. To deny it instead, wrap the limiter in a guard with another policy.
// The response is 503 if the limiter is closed or overloaded, or the limit is invalid. It is 400 if the key is longer
// than [headgate.MaxKeyBytes].
//
// Under a concurrency limit, the slot is held and renewed until the next handler returns. Under a leaky-bucket limit,
// the request waits for its turn. If its context ends first, the unit is given back.
func By(
	l headgate.Limiter, limitOf func(*http.Request) (key string, limit headgate.Limit),
) func(next http.Handler) http.Handler {
	onError := logError()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, limit := limitOf(r)
			if limit == bykey.Exempt() { // a function, because other packages can change the variable Exempt
				next.ServeHTTP(w, r)
				return
			}
			check, err := bykey.NewCheck(key, limit)
			if err != nil {
				refuse(w, r, err, onError)
				return
			}
			d, ok := admit(w, r, l, check, onError)
			if !ok {
				return
			}
			if bykey.HoldsSlot(check, d) {
				release := bykey.Hold(r.Context(), l, check, d.Receipt)
				defer func() {
					if err := release(); err != nil {
						onError(r, fmt.Errorf("release the slot of %s %s: %w", r.Method, r.URL.Path, err))
					}
				}()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// admit takes the unit of a request and waits for its turn. It returns false if the response has been sent.
func admit(
	w http.ResponseWriter, r *http.Request, l headgate.Limiter, check headgate.Check, onError func(*http.Request, error),
) (d headgate.Decision, ok bool) {
	d, err := l.Take(r.Context(), check)
	switch {
	case err != nil && r.Context().Err() != nil:
		http.Error(w, "request canceled", http.StatusServiceUnavailable)
		return d, false
	case err != nil && headgate.Open.Allows(err): // the store has failed
		onError(r, fmt.Errorf("allow %s %s without a decision: %w", r.Method, r.URL.Path, err))
		return headgate.Decision{}, true
	case err != nil:
		refuse(w, r, err, onError)
		return d, false
	}
	WriteHeaders(w.Header(), d)
	if !d.Allowed {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return d, false
	}
	admitted, err := bykey.Wait(r.Context(), l, check, d)
	if err != nil { // the request was canceled, and its unit could not be given back
		onError(r, fmt.Errorf("give back the unit of %s %s: %w", r.Method, r.URL.Path, err))
	}
	if !admitted {
		http.Error(w, "request canceled while it was delayed", http.StatusServiceUnavailable)
	}
	return d, admitted
}

// refuse responds to a request that the limiter cannot decide. If the key is too long, the response is 400, and onError
// is not called because the mistake is the client's. Otherwise the response is 503.
func refuse(w http.ResponseWriter, r *http.Request, err error, onError func(*http.Request, error)) {
	if errors.Is(err, bykey.ErrLongKey) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	onError(r, fmt.Errorf("refuse %s %s: %w", r.Method, r.URL.Path, err))
	http.Error(w, "rate limiter refused the request", http.StatusServiceUnavailable)
}

// WriteHeaders sets the headers that report a decision, for handlers that call a Limiter themselves. It sets
// X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is in Unix seconds. For a denial it also sets
// Cache-Control and Retry-After, which is at least 1. Seconds are rounded up. If a retry is useless, because RetryAfter
// is [headgate.Never], WriteHeaders deletes Retry-After.
//
// WriteHeaders sets no X-RateLimit headers if the decision is Degraded or has no Limit, because the number of remaining
// units is unknown.
func WriteHeaders(h http.Header, d headgate.Decision) {
	if d.Limit > 0 && !d.Degraded {
		h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(d.Remaining, 0), 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(resetAt(&d, time.Now()), 10))
	}
	if d.Allowed {
		return
	}
	h.Set("Cache-Control", noStore)
	if d.RetryAfter == headgate.Never {
		h.Del("Retry-After")
		return
	}
	h.Set("Retry-After", strconv.FormatInt(max(1, wholeSeconds(d.RetryAfter)), 10))
}
