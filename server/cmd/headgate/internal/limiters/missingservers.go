package limiters

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/redisstore"
)

// missingServers remembers servers that are no longer found, such as a failed primary after a failover. Metrics show
// them as down for keepMissing. Only the goroutine of WatchServers uses it.
type missingServers struct {
	since map[string]time.Time // by address
}

// keepMissing is how long a missing server is shown as down.
const keepMissing = time.Hour

var errMissing = errors.New("it is no longer one of the servers of the store")

// keep returns the servers that a check has found, and adds those of the previous check that it has not found, as down.
// err is the error of a check that failed and found no servers.
func (m *missingServers) keep(
	previous, current []redisstore.ShardHealth, err error, now time.Time,
) []redisstore.ShardHealth {
	if m.since == nil {
		m.since = map[string]time.Time{}
	}
	if err != nil {
		current = nil
	}
	found := make(map[string]bool, len(current))
	for i := range current {
		found[current[i].Server] = true
	}
	maps.DeleteFunc(m.since, func(server string, _ time.Time) bool { return found[server] })
	list := slices.Clone(current)
	for i := range previous {
		h := &previous[i]
		if found[h.Server] {
			continue
		}
		since, known := m.since[h.Server]
		if !known {
			since = now
			m.since[h.Server] = now
		}
		if err == nil && now.Sub(since) > keepMissing {
			delete(m.since, h.Server)
			continue
		}
		list = append(list, redisstore.ShardHealth{
			Shard: h.Shard, Server: h.Server, Primary: h.Primary, Counts: h.Counts, CPU: -1, Err: cmp.Or(err, errMissing),
		})
	}
	return list
}
