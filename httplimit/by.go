package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// By returns a middleware without rules: limitOf returns the key and the limit of a request, which takes one unit of
// it. Requests over the limit get 429 and the fields of [WriteHeaders]. Requests with an empty key share one counter,
// so that a client without a name is limited too. The zero Limit exempts a request.
//
// A key has one limit: middlewares with different limits over one limiter need different keys, as [headgate.Bind] says.
//
// A request passes if the limiter fails; put a guard in front of it to decide otherwise. It gets 503 if the limiter is
// closed or overloaded, or the limit is invalid. Under a concurrency limit the slot is held until the next handler
// returns, for at most the limit's TTL.
func By(
	l headgate.Limiter, limitOf func(*http.Request) (key string, limit headgate.Limit),
) func(next http.Handler) http.Handler {
	onError := logError()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			key, limit := limitOf(r)
			if limit == (headgate.Limit{}) {
				next.ServeHTTP(w, r)
				return
			}
			check := headgate.Check{Key: cmp.Or(key, noKey), Limit: limit, Cost: 1}
			d, err := l.Take(r.Context(), check)
			switch {
			case err != nil && r.Context().Err() != nil:
				http.Error(w, "request canceled", http.StatusServiceUnavailable)
				return
			case err != nil:
				onError(r, err)
				if !headgate.Open.Allows(err) {
					http.Error(w, "rate limiter refused the request", http.StatusServiceUnavailable)
					return
				}
			default:
				WriteHeaders(w.Header(), d)
				if !d.Allowed {
					http.Error(w, "too many requests", http.StatusTooManyRequests)
					return
				}
			}
			if limit.Algorithm == headgate.Concurrency && d.Receipt.Units > 0 {
				defer func() {
					if err := l.Give(context.WithoutCancel(r.Context()), check, d.Receipt); err != nil {
						onError(r, err)
					}
				}()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// noKey is the key of requests without one.
const noKey = "-"

// WriteHeaders reports a decision to the client of a handler that decides itself: X-RateLimit-Limit, -Remaining and
// -Reset, which is in Unix seconds, and for a denial Retry-After and Cache-Control. Retry-After is rounded up to whole
// seconds, at least 1. A denial that no waiting changes has none.
func WriteHeaders(h http.Header, d headgate.Decision) {
	h.Set("X-RateLimit-Limit", strconv.FormatInt(d.Limit, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(d.Remaining, 0), 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Add(d.ResetAfter).Unix(), 10))
	if d.Allowed {
		return
	}
	h.Set("Cache-Control", noStore)
	if d.RetryAfter != headgate.Never {
		h.Set("Retry-After", strconv.FormatInt(max(1, wholeSeconds(d.RetryAfter)), 10))
	}
}
