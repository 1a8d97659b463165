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

// Exempt is the limit that limitOf of [By] returns for requests that are not limited. Limiters do not accept it.
var Exempt = bykey.Exempt()

// By returns a middleware without rules: limitOf returns the key and the limit of a request, which takes one unit of
// it. Requests over the limit get 429 and the fields of [WriteHeaders]. Requests with an empty key share one counter,
// so that a client without a name is limited too. [Exempt] lets a request pass without a limit; the zero Limit, such
// as that of a plan that is missing in a map, is refused.
//
// A key has one limit: middlewares with different limits over one limiter need different keys, as [headgate.Bind] says.
//
// A request passes if the limiter fails; put a guard in front of it to decide otherwise. It gets 503 if the limiter is
// closed or overloaded, or the limit is invalid. It gets 400 if its key is longer than [headgate.MaxKeyBytes].
//
// Under a concurrency limit the slot is held, and renewed, until the next handler returns. Under a leaky-bucket the
// request waits for its turn, or until its context ends, which gives the unit back.
func By(
	l headgate.Limiter, limitOf func(*http.Request) (key string, limit headgate.Limit),
) func(next http.Handler) http.Handler {
	onError := logError()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, limit := limitOf(r)
			if limit == bykey.Exempt() {
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
	case err != nil && headgate.Open.Allows(err):
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
	waited, err := bykey.Wait(r.Context(), l, check, d)
	if err != nil {
		onError(r, fmt.Errorf("give back the unit of %s %s: %w", r.Method, r.URL.Path, err))
	}
	if !waited {
		http.Error(w, "request canceled while it was delayed", http.StatusServiceUnavailable)
	}
	return d, waited
}

// refuse responds to a request that cannot be decided because of a mistake: that of the client is not reported.
func refuse(w http.ResponseWriter, r *http.Request, err error, onError func(*http.Request, error)) {
	if errors.Is(err, bykey.ErrLongKey) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	onError(r, fmt.Errorf("refuse %s %s: %w", r.Method, r.URL.Path, err))
	http.Error(w, "rate limiter refused the request", http.StatusServiceUnavailable)
}

// WriteHeaders reports a decision to the client of a handler that decides itself: X-RateLimit-Limit, -Remaining and
// -Reset, which is in Unix seconds, and for a denial Retry-After and Cache-Control. Seconds are rounded up, and
// Retry-After is at least 1. A denial that no waiting changes has no Retry-After, and one that was set before is
// deleted.
//
// A Degraded decision, or one without a Limit, does not know the rest, and has no X-RateLimit fields.
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
