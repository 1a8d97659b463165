package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
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
		{"kind of URL and servers must agree", testKindOfURLAndServersMustAgree},
		{"until the secret is known its server decides all", testUntilTheSecretIsKnownItsServerDecidesAll},
		{"split keys never exceed their limit and use almost all of it", testSplitKeysNeverExceedTheirLimitAndUseAlmostAllOfIt},
		{"several limits are decided while their slot moves", testSeveralLimitsAreDecidedWhileTheirSlotMoves},
		{"refunds wait for a slow server and a slot that moves", testRefundsWaitForASlowServerAndASlotThatMoves},
		{"rotation of the secret changes no decision", testRotationOnACluster},
		{"health, also of a server that is dead", testHealthOfACluster},
	} {
		for _, s := range cluster.Servers()[:3] {
			if _, err := s.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(tt.name, func(t *testing.T) { tt.test(t, cluster) })
	}
}

func TestSplitKeyIsDecidedWhileOneShardIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{
		Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}, NodeTimeout: time.Minute,
	})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	down := cluster.Servers()[0]
	down.Kill()
	await.True(t, "the shard is unreachable", func() bool { return len(s.Outages()) == 1 })
	check := headgate.Check{Limit: headgate.PerHour(1000), Cost: 1, Split: 2}
	shard := func(part int) string { return s.client.ShardOf(s.keys.Load().key("", check.Key, part, "")) }
	for i := 0; check.Key == "" || shard(0) != down.Addr() || shard(1) == down.Addr(); i++ {
		check.Key = fmt.Sprint("split", i)
	}
	for range 20 {
		mustTake(t, s, check)
	}
}
