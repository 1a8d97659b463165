package guard_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

const (
	// nodeTimeout is cluster-node-timeout, and takeover what may go by beyond it until decisions are exact again.
	nodeTimeout = 1500 * time.Millisecond
	takeover    = 2 * time.Second
	// following is how long after the replica has become primary decisions must be exact again. The cluster itself may
	// take longer than takeover on a busy machine, and that is not ours to answer for. On a quiet machine it is a fraction
	// of a second.
	following = 10 * time.Second
	// unhurried is the cluster-node-timeout of tests in which no server is to be replaced, however busy the machine is.
	unhurried = 15 * time.Second
)

func clusterWith(t testing.TB, coverage string, timeout time.Duration) *redistest.ClusterSet {
	t.Helper()
	return redistest.Cluster(t, redistest.ClusterOptions{
		NodeTimeout: timeout,
		Server:      redistest.Options{Config: []string{"cluster-require-full-coverage " + coverage}},
	})
}

func TestKilledClusterPrimaryCausesNoErrors(t *testing.T) {
	for _, coverage := range []string{"no", "yes"} {
		t.Run("full coverage "+coverage, func(t *testing.T) {
			t.Parallel()
			cluster := clusterWith(t, coverage, nodeTimeout)
			store := openStore(t, cluster.URL(), redisstore.Options{})
			// With full coverage the cluster itself refuses all keys until the failover, and calls wait for it.
			alone, deadline := coverage == "no", patient
			if !alone {
				deadline = 200 * time.Millisecond
			}
			g := newGuard(t, store, guard.Options{Deadline: deadline})
			c := newCrowd(t, g, store, newAccounts(60), 32, 10*time.Millisecond)
			c.exhaust()
			dead := cluster.Servers()[0]
			heir := cluster.ReplicaOf(dead)
			if n := c.degraded(nil); alone && n > 0 {
				t.Fatalf("%d decisions are degraded before anything has happened", n)
			}

			dead.Kill()
			killed := time.Now()
			promoted := awaitRole(t, heir, "master", killed)
			calmed := promoted + c.awaitCalm(killed.Add(promoted))
			degraded := c.degraded(nil)
			c.awaitServed(killed, onShard(dead.Addr()))
			c.stop()
			if more := c.wantCounted() - degraded; alone && more > 0 {
				t.Errorf("%d decisions are degraded after it was over", more)
			}

			t.Logf("after the kill: replica promoted %v, last degraded decision %v, %v after that", promoted, calmed, calmed-promoted)
			if most := max(nodeTimeout+takeover, promoted+following); calmed > most {
				t.Errorf("the last degraded decision came %v after the kill, want at most %v", calmed, most)
			}
			excess := c.wantAtMost(1)
			others := c.degraded(notOnShard(dead.Addr()))
			t.Logf("%d asked, %d taken, %d degraded, %d of them of other shards, at most %d beyond burst + rate·t", c.asked.Load(), c.taken(), degraded, others, excess)
			if degraded == 0 {
				t.Error("nothing was degraded: nobody asked for the dead shard")
			}
			if alone {
				if others > 0 {
					t.Errorf("%d degraded decisions are about keys of other shards", others)
				}
				c.wantMost(notOnShard(dead.Addr()))
			}
		})
	}
}

func TestDeadClusterShardDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	cluster := clusterWith(t, "no", nodeTimeout)
	store := openStore(t, cluster.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	c := newCrowd(t, g, store, newAccounts(60), 32, 10*time.Millisecond)
	c.exhaust()
	dead := cluster.Servers()[1]
	heir := cluster.ReplicaOf(dead)
	heir.Kill()
	dead.Kill()
	killed := time.Now()
	// Until the cluster has noticed, and a while longer.
	time.Sleep(nodeTimeout + 1500*time.Millisecond)
	c.stop()
	c.wantCounted()
	if n := c.degraded(notOnShard(dead.Addr())); n > 0 {
		t.Errorf("%d degraded decisions are about keys of other shards", n)
	}
	c.wantAtMost(0)
	c.wantMost(notOnShard(dead.Addr()))
	last := c.began.Add(time.Duration(c.lastDegraded.Load())).Sub(killed)
	t.Logf("%d degraded of %d until %v after the kill", c.degraded(nil), c.asked.Load(), last)
	if last < nodeTimeout {
		t.Errorf("the last degraded decision came %v after the kill: the shard was not asked for all the time", last)
	}
	for _, s := range g.Shards() {
		if s.Open != (s.Name == dead.Addr()) {
			t.Errorf("the circuit of %s is open: %v", s.Name, s.Open)
		}
	}
}
