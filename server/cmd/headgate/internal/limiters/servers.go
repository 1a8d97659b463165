package limiters

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/control"
)

// A redisServer is a Redis server at the last check. If it did not respond, the figures are those of the last check to
// which it did, without its activity: CPU, operations and clients are 0.
type redisServer struct {
	redisstore.ShardHealth
	// downSince is when the server was first found not to respond. It is zero if the server responds.
	downSince time.Time
	// replaced means that the store decides without this server, for example after a failover.
	replaced bool
}

// keepMissing is how long a server that does not respond is listed after it has left the store.
const keepMissing = time.Hour

var errReplaced = errors.New("it does not respond, and the store no longer uses it")

// updateServers returns the servers that a check has found, followed by those of the previous check that it has not
// found, as down. err is the error of a check that failed and found no servers.
func updateServers(previous []redisServer, found []redisstore.ShardHealth, err error, now time.Time) []redisServer {
	if err != nil {
		found = nil
	}
	list := make([]redisServer, 0, len(found))
	for _, h := range found {
		s := redisServer{ShardHealth: h}
		if h.Err != nil {
			s.downSince, s.replaced = now, !h.Primary && wasPrimary(previous, h.Server)
			if i := indexOf(previous, h.Server); i >= 0 {
				s.keepFigures(&previous[i])
			}
		}
		list = append(list, s)
	}
	for i := range previous {
		before := &previous[i]
		if indexOf(list, before.Server) >= 0 {
			continue
		}
		s := redisServer{
			ShardHealth: redisstore.ShardHealth{
				Shard: before.Shard, Server: before.Server, Primary: before.Primary, Counts: before.Counts,
				Err: cmp.Or(err, errReplaced),
			},
			downSince: now, replaced: err == nil || before.replaced,
		}
		s.keepFigures(before)
		if err == nil && now.Sub(s.downSince) > keepMissing {
			continue
		}
		list = append(list, s)
	}
	return list
}

// keepFigures sets the figures that remain of a server that does not respond. Counters of metrics must not go back, and
// the role is part of their names.
func (s *redisServer) keepFigures(before *redisServer) {
	if !before.downSince.IsZero() {
		s.downSince = before.downSince
	}
	s.CPU, s.Primary, s.Version, s.Ping = 0, before.Primary, before.Version, before.Ping
	s.MemoryUsed, s.MemoryMax = before.MemoryUsed, before.MemoryMax
	s.NetworkIn, s.NetworkOut = before.NetworkIn, before.NetworkOut
	s.Evicted, s.Expired, s.LagBytes = before.Evicted, before.Expired, before.LagBytes
}

func indexOf(list []redisServer, server string) int {
	return slices.IndexFunc(list, func(s redisServer) bool { return s.Server == server })
}

func wasPrimary(list []redisServer, server string) bool {
	i := indexOf(list, server)
	return i >= 0 && list[i].Primary
}

// ServerStats returns the statistics of the Redis servers from the last check, nil if there are none.
func (s *Stores) ServerStats() []control.ServerStats {
	checked := time.UnixMilli(s.checked.Load()).UTC()
	var list []control.ServerStats
	for _, h := range *s.servers.Load() {
		f := control.ServerStats{
			Shard: h.Shard, Server: h.Server, Role: control.RoleReplica, Up: h.Err == nil, DownSince: h.downSince.UTC(),
			Checked: checked, Version: h.Version, PingMS: float64(h.Ping.Microseconds()) / 1000, CPU: h.CPU,
			MemoryBytes: h.MemoryUsed, MemoryMaxBytes: h.MemoryMax, NetworkIn: h.NetworkIn, NetworkOut: h.NetworkOut,
			OpsPerSecond: h.OpsPerSecond, Clients: h.Clients, EvictedKeys: h.Evicted, LagBytes: h.LagBytes,
		}
		if h.Primary {
			f.Role = control.RolePrimary
		}
		if h.Err != nil {
			f.Error = h.Err.Error()
		}
		list = append(list, f)
	}
	return list
}
