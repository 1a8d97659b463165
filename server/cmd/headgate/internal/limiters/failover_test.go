package limiters

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/telemetry"
)

// After a failover, the failed primary is down in /readyz, in heartbeats and in metrics, and the store is not degraded.
func TestFailedPrimariesAreDownEverywhere(t *testing.T) {
	t.Parallel()
	check := headgate.Check{Key: "client", Limit: headgate.MustParseLimit("1000000/s"), Cost: 1}
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	redis, err := redisstore.Open(t.Context(), cluster.URL(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redis.Close() }()
	before, err := guard.New(redis, guard.Options{Deadline: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	s := &Stores{redis: redis, guardedRedis: before}
	s.servers.Store(&[]redisServer{})
	shard := redis.Shard(check)
	take := func() error {
		d, err := before.Take(t.Context(), check)
		if err == nil && d.Degraded {
			err = fmt.Errorf("got %+v", d)
		}
		return err
	}
	await.NoError(t, "an exact decision", take)
	s.checkServers(t.Context())
	i := slices.IndexFunc(cluster.Servers(), func(server *redistest.Server) bool { return server.Addr() == shard })
	if i < 0 {
		t.Fatalf("no server is the shard %s", shard)
	}
	failed := cluster.Servers()[i]
	failed.Kill()
	await.NoError(t, "an exact decision of the new primary", func() error {
		if err := take(); err != nil {
			return err
		}
		if now := redis.Shard(check); now == shard {
			return fmt.Errorf("the shard is still %s", now)
		}
		return nil
	})
	await.NoError(t, "one truth about the failed primary", func() error {
		s.checkServers(t.Context())
		status, degraded := s.Status()
		at := slices.IndexFunc(status.Shards, func(s telemetry.ShardStatus) bool { return s.Name == shard })
		if degraded || at < 0 || status.Shards[at].Up || !status.Shards[at].Replaced {
			return fmt.Errorf("degraded %v, got %+v, want %s as down and replaced", degraded, status.Shards, shard)
		}
		var sources telemetry.Sources
		s.Measure(&sources)
		for _, h := range sources.Servers() {
			if h.Server == shard && (h.Err == nil || !h.Primary || h.NetworkIn == 0 || h.OpsPerSecond != 0) {
				return fmt.Errorf("the metrics have %+v, want it as a primary that is down, with its counters", h)
			}
		}
		for _, f := range s.ServerStats() {
			if f.Server == shard && (f.Up || f.DownSince.IsZero()) {
				return fmt.Errorf("the heartbeats have %+v, want it as down", f)
			}
		}
		return nil
	})
}
