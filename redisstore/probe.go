package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// Probe returns nil if the shard can decide now: its primary responds and accepts writes. name is a result of
// Store.Shard. Probe also returns nil for a name that no longer belongs to any server.
func (s *Store) Probe(ctx context.Context, name string) error {
	for _, server := range shardNames(name) { // with a second secret, a name can stand for two servers
		if err := s.probeServer(ctx, server); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) probeServer(ctx context.Context, name string) error {
	m, err := s.client.Map()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.Shards, func(shard topology.Shard) bool { return shard.Name == name })
	if i < 0 {
		return nil
	}
	server := m.Shards[i].Primary
	role, err := server.Role(ctx)
	if err == nil && role != topology.RolePrimary {
		err = &ServerError{Server: name, Problem: "is a replica, which takes no writes", Fix: topology.FixPrimary}
	}
	if err != nil {
		s.client.Refresh()
		return err
	}
	// Redis 7 and later refuses scripts that may write if it has too little memory, too few replicas, or cannot save. Run
	// such a script to find out.
	if err := s.runReadyScript(ctx, server); err != nil || !s.client.Clustered() {
		return err
	}
	// A working server may refuse all keys because other servers of its cluster are down.
	text, err := server.Do(ctx, s.client.Builder().ClusterInfo().Build()).ToString()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOPERM"):
		return nil // the user may not run CLUSTER INFO, and the script has passed
	case err != nil:
		return topology.Explain(err, server.Addr())
	case topology.ParseInfo(text)["cluster_state"] == "fail":
		s.client.Refresh()
		return &ServerError{
			Server: name, Problem: "is part of a cluster that does not serve all keys now", Fix: topology.FixCluster,
		}
	}
	return nil
}

// runReadyScript returns an error if a server cannot run the scripts that make decisions.
func (s *Store) runReadyScript(ctx context.Context, server *topology.Server) error {
	ready := s.currentScripts().ready
	err := server.Do(ctx, s.evalSHA(ready, nil, nil)).Error()
	if isUnknownScript(err) {
		err = server.Do(ctx, s.evalBody(ready, nil, nil)).Error()
	}
	return topology.Explain(err, server.Addr())
}
