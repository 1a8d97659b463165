package fleet

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// Ten hosts on real sockets, over a network that loses every fifth packet and takes 50 ms, and is cut in two for 5 s.
func TestSoakGossipOfTenHosts(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("takes ten minutes: HEADGATE_SOAK=1 runs it")
	}
	const hosts, length, partAt, partFor = 10, 10 * time.Minute, 2 * time.Minute, 5 * time.Second
	network := newBadNet()
	network.loss, network.delay = 0.2, 50*time.Millisecond
	var fleet []*realHost
	side := map[string]bool{}
	for i := range hosts {
		h := startReal(t, fmt.Sprint("host-", i), func(lo *LedgerOptions, o *GossipOptions) {
			o.Transport, o.Interval, o.Probe = network.wrap, 0, 0
			joining(fleet...)(lo, o)
		})
		fleet = append(fleet, h)
		side[h.Addr()] = i%2 == 0
	}
	gossipUntil(t, "ten hosts know each other", allLive(hosts, fleet...))

	o := &offer{key: "k", limit: headgate.PerSecond(1000), rate: 10_000, began: time.Since(time.Unix(0, 0))}
	now := func() time.Duration { return time.Since(time.Unix(0, 0)) }
	var passed atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, h := range fleet {
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
	parted := false
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(20 * time.Millisecond) {
		switch since := time.Since(begun); {
		case !parted && since > partAt:
			network.part(side)
			parted = true
		case parted && since > partAt+partFor:
			network.part(nil)
		}
		if extra := float64(partFor/time.Second) * float64(o.limit.Count); over() > bound+extra {
			t.Fatalf("%.0f more than burst + rate·t passed, want at most %.0f and %.0f of the time of partition", over(), bound, extra)
		}
		if !parted && over() > bound {
			t.Fatalf("%.0f more than burst + rate·t passed, want at most %.0f", over(), bound)
		}
	}
	close(stop)
	running.Wait()
	if used := float64(passed.Load()) / o.allowed(now()); used < 0.95 || used > 1.01 {
		t.Errorf("%.4f of the limit was used, want 0.95 to 1.01", used)
	}
	gossipUntil(t, "all are there again", allLive(hosts, fleet...))
	t.Logf("%.4f of the limit was used, %d bytes/s sent", float64(passed.Load())/o.allowed(now()),
		fleet[0].Stats().SentBytes/int64(length/time.Second))
}
