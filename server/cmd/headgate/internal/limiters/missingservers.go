package limiters

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/redisstore"
)

// missingServers remembers servers that a check no longer finds, such as a primary after a failover, so that metrics
// show them as down for keepMissing instead of dropping them immediately. Only the goroutine of the checks uses it.
type missingServers struct {
	since map[string]time.Time // by address
}

// keepMissing is how long a missing server is shown as down.
const keepMissing = time.Hour

var errMissing = errors.New("it is no longer one of the servers of the store")

// keep returns the servers that a check has found, and as down the servers that only the check before has found. err is
// set if the check failed and found no servers.
func (m *missingServers) keep(
	before, now []redisstore.ShardHealth, err error, at time.Time,
) []redisstore.ShardHealth {
	if m.since == nil {
		m.since = map[string]time.Time{}
	}
	if err != nil {
		now = nil
	}
	found := make(map[string]bool, len(now))
	for i := range now {
		found[now[i].Server] = true
	}
	maps.DeleteFunc(m.since, func(server string, _ time.Time) bool { return found[server] })
	list := slices.Clone(now)
	for i := range before {
		h := &before[i]
		if found[h.Server] {
			continue
		}
		since, known := m.since[h.Server]
		if !known {
			since = at
			m.since[h.Server] = at
		}
		if err == nil && at.Sub(since) > keepMissing {
			delete(m.since, h.Server)
			continue
		}
		list = append(list, redisstore.ShardHealth{
			Shard: h.Shard, Server: h.Server, Primary: h.Primary, Counts: h.Counts, CPU: -1, Err: cmp.Or(err, errMissing),
		})
	}
	return list
}
