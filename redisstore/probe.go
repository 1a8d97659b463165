package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// Probe returns nil if the shard can decide now: its primary responds and takes writes. It also returns nil for a name
// that belongs to no server any more.
func (s *Store) Probe(ctx context.Context, name string) error {
	for _, server := range shardNames(name) {
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
	// The server may lack memory, replicas or a disk. From Redis 7 on it then refuses a script that may write.
	if err := s.runReady(ctx, server); err != nil || !s.client.Clustered() {
		return err
	}
	// The server may work and serve no keys, while other servers of the cluster are down.
	text, err := server.Do(ctx, s.client.Builder().ClusterInfo().Build()).ToString()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOPERM"):
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

// runReady returns nil if a server runs scripts that decide.
func (s *Store) runReady(ctx context.Context, server *topology.Server) error {
	ready := s.currentScripts().ready
	err := server.Do(ctx, s.evalSHA(ready, nil, nil)).Error()
	if isUnknownScript(err) {
		err = server.Do(ctx, s.evalBody(ready, nil, nil)).Error()
	}
	return topology.Explain(err, server.Addr())
}
