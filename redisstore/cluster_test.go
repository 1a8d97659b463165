package redisstore

import (
	"testing"

	"github.com/headgate/headgate/internal/redistest"
)

// TestOnOneCluster runs the tests for which any cluster will do, one after the other: it takes two seconds until one works.
func TestOnOneCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	for _, tt := range []struct {
		name string
		test func(*testing.T, *redistest.ClusterSet)
	}{
		{"slots are those of Redis", testSlotsAreThoseOfRedis},
		{"kind of URL and servers must agree", testKindOfURLAndServersMustAgree},
		{"until the secret is known its server decides all", testUntilTheSecretIsKnownItsServerDecidesAll},
		{"split keys never exceed their limit and use almost all of it", testSplitKeysNeverExceedTheirLimitAndUseAlmostAllOfIt},
		{"servers that leave are forgotten", testServersThatLeaveAreForgotten},
		{"keys that move are followed", testKeysThatMoveAreFollowed},
		{"TRYAGAIN ends with the deadline", testTryAgainEndsWithTheDeadline},
		{"several commands reach all shards", testDoMultiReachesAllShards},
		{"several limits are decided while their slot moves", testSeveralLimitsAreDecidedWhileTheirSlotMoves},
		{"sent commands are not lost", testSentCommandsAreNotLost},
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
