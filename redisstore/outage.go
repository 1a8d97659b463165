package redisstore

import "time"

// An Outage describes a shard that cannot decide.
type Outage struct {
	// Shard is the name of the shard, as returned by Store.Shard.
	Shard string
	// Err says why the shard cannot decide, and how to fix this.
	Err error
	// Since is when the connection to the shard's primary was lost, or the zero time if this is not known.
	Since time.Time
}

// Outages returns the shards that cannot decide now, because their primary is unreachable, unknown or cannot be used.
// Outages does not call a server: the store checks its connections in the background, even without other calls.
func (s *Store) Outages() []Outage {
	m, err := s.client.Map()
	if err != nil {
		return []Outage{{Shard: s.client.ShardOf(""), Err: err}}
	}
	var list []Outage
	for _, shard := range m.Shards {
		if since, err := shard.Primary.Outage(); err != nil {
			list = append(list, Outage{Shard: shard.Name, Err: err, Since: since})
		}
	}
	if reason := s.servers.permanentErr.Load(); reason != nil && len(list) == 0 {
		list = append(list, Outage{Shard: s.client.ShardOf(""), Err: *reason})
	}
	return list
}
