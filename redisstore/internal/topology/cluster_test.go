package topology

import (
	"fmt"
	"net"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

// TestOnOneCluster runs the tests that can share a cluster, one after the other: starting one takes two seconds.
func TestOnOneCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	for _, tt := range []struct {
		name string
		test func(*testing.T, *redistest.ClusterSet)
	}{
		{"slots are those of Redis", testSlotsAreThoseOfRedis},
		{"servers that leave are forgotten", testServersThatLeaveAreForgotten},
		{"keys that move are followed", testKeysThatMoveAreFollowed},
		{"TRYAGAIN ends with the deadline", testTryAgainEndsWithTheDeadline},
		{"several commands reach all shards", testDoMultiReachesAllShards},
		{"sent commands are not lost", testSentCommandsAreNotLost},
	} {
		for _, s := range cluster.Servers()[:3] {
			if _, err := s.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(tt.name, func(t *testing.T) { tt.test(t, cluster) })
	}
}

// tellsOf makes a server of a cluster say that another one has all slots, with an epoch.
func tellsOf(asked, owner *redistest.Fake, epoch int) {
	host, port, _ := net.SplitHostPort(owner.Addr())
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	asked.Set("CLUSTER NODES", bulk(fmt.Sprintf("id-of-%s %s@1 master - 0 0 %d connected 0-16383\n", port, owner.Addr(), epoch)))
	asked.Set("CLUSTER SLOTS", fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n+%s\r\n:%s\r\n+id-of-%s\r\n", host, port, port))
	// All servers know of the last election, even those that do not know the winner.
	asked.Set("CLUSTER INFO", bulk("cluster_state:ok\r\ncluster_current_epoch:9\r\n"))
}

// While servers learn of a failover, they name different primaries.
func TestServerThatMissedAFailoverIsIgnored(t *testing.T) {
	t.Parallel()
	before, after := redistest.NewFake(t, nil), redistest.NewFake(t, nil)
	behind, ahead := redistest.NewFake(t, nil), redistest.NewFake(t, nil)
	for _, s := range []*redistest.Fake{before, behind} {
		tellsOf(s, before, 7)
	}
	for _, s := range []*redistest.Fake{after, ahead} {
		tellsOf(s, after, 8)
	}
	c := connect(t, "redis-cluster://"+behind.Addr()+","+ahead.Addr(), Options{Logger: (&logbook.Book{}).Logger()})
	primary := func() string { return c.current.Load().Shards[0].Primary.Addr() }
	await.NoError(t, "not so yet", func() error {
		if got := primary(); got != after.Addr() {
			return fmt.Errorf("the primary is %s, want %s", got, after.Addr())
		}
		return nil
	})
	for range 40 {
		if err := c.readMap(within(t, unhurried), unhurried); err != nil {
			t.Fatal(err)
		}
		if got := primary(); got != after.Addr() {
			t.Fatalf("the primary is %s, want %s: some have not heard of the failover, and one has", got, after.Addr())
		}
	}
	// All servers say something else: it is another cluster.
	for _, server := range []*redistest.Fake{before, behind, after, ahead} {
		tellsOf(server, before, 1)
	}
	await.NoError(t, "not so yet", func() error {
		if got := primary(); got != before.Addr() {
			return fmt.Errorf("the primary is %s, want %s, as all say", got, before.Addr())
		}
		return nil
	})
}

func TestIsBehind(t *testing.T) {
	there, alsoThere, away := &Server{}, &Server{}, &Server{}
	there.status.Store(&status{connected: true})
	alsoThere.status.Store(&status{connected: true})
	away.status.Store(&status{err: errNotConnected})
	at := func(epoch int64, n *Server) *Map {
		return &Map{owners: make([]int16, slots), Shards: []Shard{{Primary: n, epoch: epoch}}}
	}
	gap := at(2, there)
	gap.owners[slots-1] = -1
	for _, tt := range []struct {
		what     string
		m, known *Map
		want     bool
	}{
		{"the first map", at(1, away), nil, false},
		{"the same map", at(2, there), at(2, there), false},
		{"a lower epoch", at(1, alsoThere), at(2, there), true},
		{"a lower epoch of the same server", at(1, there), at(2, there), true},
		{"a lower epoch, and what is known is away", at(1, there), at(2, away), true},
		{"a higher epoch, of a server that is away", at(3, away), at(2, there), false},
		{"epochs not known, and both are there", at(0, alsoThere), at(0, there), false},
		{"epochs not known, and a server that is away for one that is there", at(0, away), at(0, there), true},
		{"epochs not known, and one that is there for one that is away", at(0, there), at(0, away), false},
		{"nobody has a slot that somebody had", gap, at(2, there), true},
		{"somebody has a slot that nobody had", at(2, there), gap, false},
	} {
		if got := tt.m.isBehind(tt.known); got != tt.want {
			t.Errorf("%s: behind is %t, want %t", tt.what, got, tt.want)
		}
	}
}
