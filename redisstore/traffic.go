package redisstore

import (
	"slices"
	"time"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// LastSent returns when a command was last sent to the server of a shard, or the zero time if that is not known. Calls
// that began later have not been sent yet, because this process is busy. For a shard of several servers, it returns the
// earliest of their times.
func (s *Store) LastSent(shard string) time.Time {
	var earliest time.Time
	for _, server := range s.primaries(shard) {
		if at := server.LastWrite(); !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// LastReceived returns when data last arrived from any server of a shard, or the zero time if that is not known.
func (s *Store) LastReceived(shard string) time.Time {
	var last time.Time
	for _, server := range s.primaries(shard) {
		if at := server.LastRead(); at.After(last) {
			last = at
		}
	}
	return last
}

// HasUnread reports whether this process is too busy to read data that has arrived from a server of the shard.
func (s *Store) HasUnread(shard string) bool {
	for _, server := range s.primaries(shard) {
		if server.HasUnread() {
			return true
		}
	}
	return false
}

// primaries returns the primaries in a shard name, or all primaries if it is the name for split keys.
func (s *Store) primaries(shard string) []*topology.Server {
	m, err := s.client.Map()
	if err != nil {
		return nil
	}
	var list []*topology.Server
	names := shardNames(shard)
	for i := range m.Shards {
		if slices.Contains(names, m.Shards[i].Name) || shard == splitShard {
			list = append(list, m.Shards[i].Primary)
		}
	}
	return list
}
