package limiters

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/redisstore"
)

// missingServers remembers servers that a check no longer finds, such as a primary after a failover, so that their
// metrics say that they are down for a time instead of ending. Only the goroutine of the checks uses it.
type missingServers struct {
	since map[string]time.Time // by address
}

// keepMissing is how long a missing server is shown as down.
const keepMissing = time.Hour

var errMissing = errors.New("it is no longer one of the servers of the store")

// keep returns the servers of a check, and as down those of the check before that it does not have. err is why the
// check did not find any servers.
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
