//go:build !race

package traffic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Zipf traffic of a million clients: every client above 1 % is found, and counts are within 5 %. One of them sends its
// first request when the tables are full.
func TestHeavyClientsAreFoundAmongAMillion(t *testing.T) {
	z := newZipfRun(t)
	z.send(250_000, 0)
	z.send(250_000, 40)
	z.pass(7 * time.Second)
	z.check(5_000)
	if z.exact[late] < 5_000 {
		t.Errorf("got %d requests of the late client, want 1 %%", z.exact[late])
	}
}

// From 50,000 requests in a second on, one in 4 is counted. Clients with 1 % of them in a minute are within 5 %.
func TestClientsOfABusyRuleAreSampled(t *testing.T) {
	z := newZipfRun(t)
	for range 11 {
		z.send(52_000, 0)
		z.tick()
	}
	z.pass(7 * time.Second)
	z.check(31_200)
}

// late is a client beyond those of Zipf traffic.
const late = 1_000_001

// A zipfRun sends Zipf traffic of a million clients under one rule.
type zipfRun struct {
	*rig
	next  func() uint64
	exact map[uint64]int
}

func newZipfRun(t *testing.T) *zipfRun {
	t.Helper()
	r := newRig(t, `rules: [{ id: search, key: user, limits: 10000000/s }]`, traffic.Clear)
	r.send(1, attributes("user", "first"))
	r.tick() // the rule gets its table
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.001, 1, 1_000_000)
	return &zipfRun{rig: r, next: zipf.Uint64, exact: map[uint64]int{}}
}

// send sends requests. Every n-th is of the late client, none if n is 0.
func (z *zipfRun) send(requests, n int) {
	z.t.Helper()
	user := headgate.Attribute{Kind: headgate.AttrUser}
	var v engine.Verdict
	subject := rules.Attributes{}
	for i := range requests {
		client := z.next()
		if n > 0 && i%n == 0 {
			client = late
		}
		z.exact[client]++
		subject[user] = fmt.Sprintf("client-%d", client)
		if err := z.engine.Decide(context.Background(), subject, &v); err != nil {
			z.t.Fatal(err)
		}
	}
}

// check checks the counts of the clients with at least a number of requests, and how often the error holds.
func (z *zipfRun) check(heavy int) {
	z.t.Helper()
	found := map[string]traffic.ClientRow{}
	for _, c := range z.history.Clients(traffic.ClientsQuery{Window: 10 * time.Minute, Limit: 1000}, z.now).Clients {
		found[c.Client.Attributes()["user"]] = c
	}
	checked, worst, outside := 0, 0.0, 0
	for n, count := range z.exact {
		c, ok := found[fmt.Sprintf("client-%d", n)]
		off := int(c.Requests) - count
		if ok && max(off, -off) > int(c.Error) {
			outside++
		}
		if count < heavy {
			continue
		}
		checked++
		ratio := float64(off) / float64(count)
		worst = max(worst, ratio, -ratio)
		if ratio > 0.05 || ratio < -0.05 {
			z.t.Errorf("client %d: got %d requests with an error of %d, want %d", n, c.Requests, c.Error, count)
		}
	}
	z.t.Logf("%d distinct clients, %d heavy, worst count off by %.2f %%; the truth is outside the error of %d of %d",
		len(z.exact), checked, 100*worst, outside, len(found))
	if checked == 0 {
		z.t.Errorf("got no client with %d requests", heavy)
	}
	if outside > len(found)/10 {
		z.t.Errorf("got %d of %d clients outside their error, want about 1 %%", outside, len(found))
	}
}
