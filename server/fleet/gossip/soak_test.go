//go:build !race

package gossip

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
)

// Ten hosts on real sockets, over a network that loses every fifth packet and takes 50 ms, and is cut in two for 5 s.
func TestSoakGossipOfTenHosts(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("takes ten minutes: HEADGATE_SOAK=1 runs it")
	}
	const hosts, length, partAt, partFor = 10, 10 * time.Minute, 2 * time.Minute, 5 * time.Second
	network := newBadNet()
	network.loss, network.delay = 0.2, 50*time.Millisecond
	var all []*realHost
	side := map[string]bool{}
	for i := range hosts {
		h := startReal(t, fmt.Sprint("host-", i), func(lo *fleet.LedgerOptions, o *Options) {
			o.Transport, o.Interval, o.Probe = network.wrap, 0, 0
			joining(all...)(lo, o)
		})
		all = append(all, h)
		side[h.Addr()] = i%2 == 0
	}
	await.True(t, "ten hosts know each other", allLive(hosts, all...))

	o := &offer{key: "k", limit: headgate.PerSecond(1000), rate: 10_000, began: time.Since(time.Unix(0, 0))}
	now := func() time.Duration { return time.Since(time.Unix(0, 0)) }
	var passed atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, h := range all {
		running.Go(func() {
			done := 0.0
			for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
				select {
				case <-stop:
					return
				default:
				}
				due := time.Since(begun).Seconds() * o.rate / hosts
				passed.Add(int64(h.take(t, o.key, o.limit, int(due-done))))
				done += float64(int(due - done))
			}
		})
	}
	bound := o.bound(hosts, time.Second)
	over := func() float64 { return float64(passed.Load()) - o.allowed(now()) }
	parted, worst := false, 0.0
	stood := time.Duration(0) // that the whole process was held up, and nobody asked: the limit cannot be used then
	excuse, until, last := 0.0, time.Now(), time.Now()
	look := func() {
		if held := time.Since(last); held > 200*time.Millisecond {
			stood += held
			// What came meanwhile comes at once, to hosts that have all refilled: a λ that the bound does not know of.
			excuse, until = float64(hosts*o.limit.Count)*held.Seconds(), time.Now().Add(10*time.Second)
		} else if time.Now().After(until) {
			excuse = 0
		}
		last = time.Now()
	}
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(20 * time.Millisecond) {
		look()
		switch since := time.Since(begun); {
		case !parted && since > partAt:
			network.part(side)
			parted = true
		case parted && since > partAt+partFor:
			network.part(nil)
		}
		if extra := float64(partFor/time.Second) * float64(o.limit.Count); over() > bound+extra+excuse {
			t.Fatalf("%.0f more than burst + rate·t passed, want at most %.0f and %.0f of the time of partition", over(), bound, extra)
		}
		if !parted && excuse == 0 {
			worst = max(worst, over())
		}
		if !parted && over() > bound+excuse {
			t.Fatalf("%.0f more than burst + rate·t passed, want at most %.0f", over(), bound)
		}
	}
	close(stop)
	running.Wait()
	look()
	end := now()
	used := float64(passed.Load()) / o.allowed(end)
	if asked := float64(passed.Load()) / o.allowed(end-stood); asked < 0.95 || used > 1.01 {
		t.Errorf("%.4f of the limit was used, want at most 1.01; %.4f without the %v that all stood still, want at least 0.95", used, asked, stood)
	}
	await.True(t, "all are there again", allLive(hosts, all...))
	t.Logf("%.4f of the limit was used, at most %.0f over before the network was cut, bound %.0f; %d bytes/s sent; all stood still for %v", used, worst, bound, all[0].Stats().SentBytes/int64(length/time.Second), stood)
}
