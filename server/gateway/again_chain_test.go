package gateway

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
)

// A handler in front of the limiter, or between two limiters, may add different attributes to equal requests, and rules
// must see them.
func TestRepeatedRequestsUseCurrentAttributes(t *testing.T) {
	const rules = `
rules:
  - { id: all, key: ip, limits: 1000/h }
  - { id: gold, when: { header.x-plan: gold }, key: ip, limits: 100/h }
  - { id: free, when: { header.x-plan: free }, key: ip, limits: 3/h }
`
	var plan atomic.Value // of the request in progress
	says := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header["X-Plan"] = []string{plan.Load().(string)}
			next.ServeHTTP(w, r)
		})
	}
	for name, chain := range map[string]func(limit func(http.Handler) http.Handler, next http.Handler) http.Handler{
		"before it": func(limit func(http.Handler) http.Handler, next http.Handler) http.Handler {
			return says(limit(next))
		},
		"between it and it": func(limit func(http.Handler) http.Handler, next http.Handler) http.Handler {
			return limit(says(limit(next)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := newRecorder(t)
			c := before(up.URL)
			c.Identity = identify(t, identity.Config{})
			limit := limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
			c.Limit = func(next http.Handler) http.Handler { return chain(limit, next) }
			g := start(t, c)
			conn, r := dial(t, g)
			for i, step := range []struct {
				plan string
				want int
			}{
				{"free", 200},
				{"free", 200},
				{"free", 200},
				{"free", 429},
				{"gold", 200},
				{"gold", 200},
				{"free", 429},
				{"gold", 200},
			} {
				plan.Store(step.plan)
				send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
				if a := receive(t, r, http.MethodGet); a.status != step.want {
					t.Errorf("request %d, now %s: %d, want %d", i, step.plan, a.status, step.want)
				}
			}
		})
	}
}

// Two limiters in a chain count each request twice, and hold nothing when it has ended.
func TestRepeatedRequestsBehindTwoLimiters(t *testing.T) {
	const rules = `
rules:
  - { id: held, key: ip, limits: 2 concurrent }
  - { id: each, key: ip, limits: 40/h }
`
	for name, same := range map[string]bool{"the same": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			up := newRecorder(t)
			c := before(up.URL)
			c.Identity = identify(t, identity.Config{})
			store := newStore(t, memstore.Options{})
			outer := limitIn(t, store, c.Identity, rules)
			inner := outer
			if !same {
				inner = limitIn(t, store, c.Identity, rules)
			}
			c.Limit = func(next http.Handler) http.Handler { return outer(inner(next)) }
			g := start(t, c)
			conn, r := dial(t, g)
			for i := range 21 {
				want := http.StatusOK
				if i == 20 {
					want = http.StatusTooManyRequests
				}
				send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
				if a := receive(t, r, http.MethodGet); a.status != want {
					t.Fatalf("request %d: %d %s, want %d", i, a.status, a.body, want)
				}
			}
		})
	}
}
