package gateway

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// tokensUntil accepts every token, with its text as the subject, until they expire.
type tokensUntil struct{ over atomic.Bool }

type nameClaim string

func (c nameClaim) Claim(name string) (string, bool) { return string(c), name == "sub" }
func (nameClaim) Verified() bool                     { return true }

func (t *tokensUntil) Verify(token string) (identity.Claims, error) {
	if t.over.Load() {
		return nil, fmt.Errorf("token %s: it is over", token)
	}
	return nameClaim(token), nil
}

// An equal request on the same connection is decided with less work but in the same way: it makes no difference whether
// all requests come on one connection or each on its own.
func TestRepeatedRequestsAreDecidedLikeOthers(t *testing.T) {
	const rules = `
rules:
  - { id: each, when: { path: /a }, key: ip, limits: [40/s burst 10, 200/m sliding-window] }
  - { id: plan, when: { header.x-plan: gold }, key: api_key, limits: 7/s }
  - { id: person, when: { path: /t }, key: user, limits: 5/s, fallback: deny }
  - { id: held, when: { path: /slots }, key: ip, limits: 1 concurrent }
  - { id: barred, when: { path: /barred }, block: true }
`
	requests := []string{
		lines("GET /a HTTP/1.1", "Host: a.example"),
		lines("GET /a HTTP/1.1", "Host: a.example", "X-Plan: gold", "X-API-Key: k1"),
		lines("GET /a HTTP/1.1", "Host: a.example", "X-Plan: gold", "X-API-Key: k2"),
		lines("GET /b HTTP/1.1", "Host: a.example"),
		lines("GET /t HTTP/1.1", "Host: a.example", "Authorization: Bearer alice"),
		lines("GET /t HTTP/1.1", "Host: a.example"),
		lines("GET /slots HTTP/1.1", "Host: a.example"),
		lines("GET /barred HTTP/1.1", "Host: a.example"),
		lines("GET /a HTTP/1.1", "Host: a.example", "X-API-Key: k1", "X-API-Key: k2", "X-Plan: gold"),
		lines("POST /a HTTP/1.1", "Host: a.example", "Content-Length: 9") + "123456789", // more bytes than allowed
	}
	type side struct {
		g     *Gateway
		clock *limittest.Clock
		conn  net.Conn
		r     *bufio.Reader
	}
	tokens := &tokensUntil{}
	up := newRecorder(t)
	newSide := func() *side {
		s := &side{clock: limittest.NewClock()}
		c := before(up.URL)
		c.Routes[0].MaxBody = 8
		c.Identity = identify(t, identity.Config{Tokens: tokens})
		c.Limit = limitIn(t, newStore(t, memstore.Options{Now: s.clock.Now}), c.Identity, rules)
		s.g = start(t, c)
		return s
	}
	one, other := newSide(), newSide()
	from := rand.New(rand.NewPCG(1, 2))
	statuses, at := map[int]int{}, 0
	for step := range 2000 {
		if from.IntN(5) == 0 {
			pause := time.Duration(from.Int64N(int64(200 * time.Millisecond))).Truncate(time.Microsecond)
			one.clock.Advance(pause)
			other.clock.Advance(pause)
		}
		if from.IntN(50) == 0 {
			tokens.over.Store(!tokens.over.Load())
		}
		if from.IntN(6) == 0 {
			at = from.IntN(len(requests))
		}
		var got [2]string
		for i, s := range []*side{one, other} {
			if s.conn == nil {
				s.conn, s.r = dial(t, s.g)
			}
			send(t, s.conn, requests[at])
			a := receive(t, s.r, http.MethodGet)
			got[i] = fmt.Sprint(a.status, a.header["Ratelimit"], a.header["Ratelimit-Policy"], a.header["Retry-After"],
				a.header["X-Ratelimit-Limit"], a.header["X-Ratelimit-Remaining"])
			if i == 0 {
				statuses[a.status]++
			}
			if a.close || i == 1 {
				_ = s.conn.Close()
				s.conn = nil
			}
		}
		if got[0] != got[1] {
			t.Fatalf("step %d, %q: on one connection %s, on its own %s", step, requests[at], got[0], got[1])
		}
	}
	t.Log(statuses)
	for _, status := range []int{200, 400, 403, 413, 429} {
		if statuses[status] < 20 {
			t.Errorf("%d responses of %d: want more, or the comparison means little", statuses[status], status)
		}
	}
}
