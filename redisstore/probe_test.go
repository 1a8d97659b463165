package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

// A server of a cluster may respond and serve no keys. Circuits must stay open then.
func TestProbeFailsWhileTheClusterIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Second})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	alive, dead := cluster.Servers()[0], cluster.Servers()[1]
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), alive.Addr()) })
	cluster.ReplicaOf(dead).Kill()
	dead.Kill()
	await.NoError(t, "not so yet", func() error {
		reply, err := alive.Do("CLUSTER", "INFO")
		if err == nil && !strings.Contains(fmt.Sprint(reply), "cluster_state:fail") {
			err = errors.New("it is well")
		}
		return err
	})
	says(t, s.Probe(within(t, unhurried), alive.Addr()), alive.Addr(), "does not serve all keys", "cluster-require-full-coverage")
	if _, err := alive.Do("CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), alive.Addr()) })
}

func TestProbeReportsWhetherAShardDecides(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	if err := s.Probe(within(t, unhurried), server.Addr()); err != nil {
		t.Errorf("a good one: %v", err)
	}
	if err := s.Probe(within(t, unhurried), "10.9.9.9:1"); err != nil {
		t.Errorf("an unknown one: %v", err)
	}
	if _, err := server.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
	says(t, s.Probe(within(t, unhurried), server.Addr()), server.Addr(), "is a replica")
	err := take(within(t, unhurried), s, "alice")
	says(t, err, server.Addr(), "is a replica, which takes no writes", "redis-sentinel://")
	if _, err := server.Do("REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	await.NoError(t, "not so yet", func() error { return s.Probe(within(t, time.Second), server.Addr()) })
	server.Pause()
	if err := s.Probe(within(t, 50*time.Millisecond), server.Addr()); err == nil {
		t.Error("one that hangs is good")
	}
	server.Resume()
	server.Kill()
	await.NoError(t, "not so yet", func() error {
		if s.Probe(within(t, time.Second), server.Addr()) == nil {
			return errors.New("one that is dead is good")
		}
		return nil
	})
}
