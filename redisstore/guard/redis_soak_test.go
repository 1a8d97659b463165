package guard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// One fault after the other, while a crowd asks: no error reaches it, what is degraded is counted, and nobody gets more
// than burst + rate·t by decisions that are not degraded, during any of the faults and in all, but for one burst for
// every failover that may lose something. With HEADGATE_SOAK=1 it is half an hour of faults by chance (with
// HEADGATE_SOAK=10m ten minutes), else one of each that takes no failover by vote.
func TestSoakFaultsOfACluster(t *testing.T) {
	t.Parallel()
	timeout, deadline := unhurried, patient // of which neither is to end what only a busy machine makes slow
	if soaks() {
		timeout, deadline = nodeTimeout, guard.DefaultDeadline
	}
	cluster := clusterWith(t, "no", timeout)
	store := openStore(t, cluster.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: deadline})
	accounts := newAccounts(90)
	for i := range 10 {
		accounts = append(accounts, newAccount(limitsOf(fmt.Sprint("several", i))...))
	}
	c := newCrowd(t, g, store, accounts, 32, 10*time.Millisecond)
	lost := int64(0)
	faults := []struct {
		what           string
		loses, planned int64 // failovers that may lose something, and that cannot
		do             func()
	}{
		{"flush scripts", 0, 0, func() {
			for _, s := range primariesOf(cluster) {
				s.FlushScripts()
			}
		}},
		{"move slots", 0, 0, func() { moveSlots(t, cluster) }},
		{"hang for a moment", 0, 0, func() {
			s := anyOf(primariesOf(cluster))
			s.Pause()
			time.Sleep(nodeTimeout / 5)
			s.Resume()
		}},
		{"fail over", 0, 1, func() { cluster.Failover(cluster.ReplicaOf(anyOf(primariesOf(cluster)))) }},
		{"kill", 1, 0, func() {
			slot := rand.IntN(redistest.Slots)
			dead := cluster.PrimaryOfSlot(slot)
			key := keyAt(slot)
			dead.Kill()
			cluster.WaitForFailover(key, dead)
			dead.Restart()
			cluster.Settle()
		}},
		{"hang for long", 1, 0, func() {
			slot := rand.IntN(redistest.Slots)
			hung := cluster.PrimaryOfSlot(slot)
			hung.Pause()
			cluster.WaitForFailover(keyAt(slot), hung)
			hung.Resume()
			cluster.Settle()
		}},
	}
	counts := make([]int, len(faults))
	suffer := func(i int) {
		f := faults[i]
		counts[i]++
		before, began := primariesOf(cluster), c.mark()
		degraded := c.degraded(nil)
		f.do()
		took := time.Since(began.at)
		served := c.awaitServed(began.at, everybody)
		// A server that loses its core for long enough is replaced too, unasked.
		loses := max(f.loses, replaced(before, primariesOf(cluster))-f.planned)
		lost += loses
		t.Logf("%s: %v, exact again after %v, %d decisions degraded, at most %d beyond burst + rate·t",
			f.what, took, served, c.degraded(nil)-degraded, c.wantSince(began, loses))
	}
	if soaks() {
		for end := time.Now().Add(soaking()); time.Now().Before(end) && !t.Failed(); {
			suffer(rand.IntN(len(faults)))
		}
	} else {
		for i, f := range faults {
			if f.loses == 0 {
				suffer(i)
			}
		}
	}
	c.stop()
	for i, f := range faults {
		t.Logf("%s: %d times", f.what, counts[i])
	}
	t.Logf("%d asked, %d taken, %d degraded, at most %d beyond burst + rate·t after %d failovers",
		c.asked.Load(), c.taken(), c.wantCounted(), c.wantAtMost(lost), lost)
	if c.errors.Load() > 0 {
		t.Errorf("%d errors reached callers", c.errors.Load())
	}
}

// What other tests do in seconds, for minutes.
func TestSoakOutages(t *testing.T) {
	if !soaks() {
		t.Skip("takes minutes: HEADGATE_SOAK=1 runs it")
	}
	for name := range outages {
		t.Run(name, func(t *testing.T) { testOutage(t, name, time.Minute, (*outage).checkTimes) })
	}
	t.Run("hot key", func(t *testing.T) {
		testHotKey(t, "5/h", time.Minute, func(h *hotKey) { h.checkQuick(t, guard.DefaultDenyCache) })
	})
	t.Run("once", func(t *testing.T) { testOnce(t, 200) })
	t.Run("flushes", func(t *testing.T) { testFlushes(t, time.Minute) })
}

func anyOf(list []*redistest.Server) *redistest.Server { return list[rand.IntN(len(list))] }

// primariesOf returns the servers that have slots.
func primariesOf(c *redistest.ClusterSet) []*redistest.Server {
	var list []*redistest.Server
	for i := range 3 {
		list = append(list, c.PrimaryOfSlot(redistest.Slots*i/3))
	}
	return list
}

// replaced returns how many primaries are others than before.
func replaced(before, after []*redistest.Server) int64 {
	var n int64
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// keyAt returns a key of a slot.
func keyAt(slot int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key", i); redistest.SlotOf(key) == slot {
			return key
		}
	}
}

// moveSlots moves some slots that have keys to other primaries, and back.
func moveSlots(t testing.TB, cluster *redistest.ClusterSet) {
	t.Helper()
	keys := keysOf(t, cluster, 0)
	for range 3 {
		slot := redistest.SlotOf(keys[rand.IntN(len(keys))])
		home := cluster.PrimaryOfSlot(slot)
		for _, to := range primariesOf(cluster) {
			if to != home {
				m := cluster.BeginMove(slot, to)
				m.MoveKeys(1)
				time.Sleep(5 * time.Millisecond)
				m.Finish()
				cluster.MoveSlot(slot, home)
				break
			}
		}
	}
}
