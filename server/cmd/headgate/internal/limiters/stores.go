package limiters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/telemetry"
)

// openTimeout is the timeout for opening Redis, after which the node starts in degraded mode.
const openTimeout = 5 * time.Second

// Stores are the stores of a node's counters.
type Stores struct {
	Memory       *memstore.Store   // always used
	redis        *redisstore.Store // nil with store: memory
	guardedRedis *guard.Guard      // in front of redis

	nodes    atomic.Pointer[fleet.Members] // counts the nodes; nil until the membership is open
	servers  atomic.Pointer[[]redisServer] // the result of the last check; never nil
	checked  atomic.Int64                  // time of the last check, in Unix milliseconds
	checkNow chan struct{}                 // receives if a server may have failed or responded again
}

// StoreOptions are the parameters of OpenStores.
type StoreOptions struct {
	Config           *config.Config
	Secret           []byte
	SecondSecret     []byte // second secret while operators replace Secret; usually nil
	MayBeUnreachable bool   // open the stores even if Redis is unreachable
	Metrics          *telemetry.Metrics
	Logger           *slog.Logger
}

// OpenStores opens the configured stores.
func OpenStores(ctx context.Context, options StoreOptions) (*Stores, error) {
	c, log := options.Config, options.Logger
	memory, err := memstore.New(c.MemoryOptions())
	if err != nil {
		return nil, err
	}
	s := &Stores{Memory: memory, checkNow: make(chan struct{}, 1)}
	s.servers.Store(new([]redisServer))
	if c.Store == config.StoreMemory {
		return s, nil
	}
	o := c.RedisOptions(options.Secret)
	o.Logger, o.StartUnreachable, o.SecondSecret = log, options.MayBeUnreachable, options.SecondSecret
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if s.redis, err = redisstore.Open(openCtx, c.Store, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Origin("store"), err), s.Close())
	}
	g := c.GuardOptions()
	g.Local = memory
	if g.Nodes == nil {
		g.Nodes = s.liveNodes
	}
	g.OnEvent = func(e guard.Event) {
		logGuardEvent(log, e)
		select {
		case s.checkNow <- struct{}{}:
		default: // a check is about to begin
		}
	}
	g.OnCall = options.Metrics.ObserveShard
	if s.guardedRedis, err = guard.New(options.Metrics.Timed("redis", s.redis), g); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if options.Secret == nil {
		log.Warn("no --key-secret-file: bearer tokens and very long values are counted on each node separately, " +
			"and leases are not protected")
	}
	return s, nil
}

// setNodes sets the membership, which counts the nodes.
func (s *Stores) setNodes(m fleet.Members) { s.nodes.Store(&m) }

// liveNodes returns the number of nodes that share the limits, 1 if it is unknown.
func (s *Stores) liveNodes() int {
	if m := s.nodes.Load(); m != nil {
		return (*m).Live()
	}
	return 1
}

// Main returns the guarded Redis store, or the memory store if there is no Redis.
func (s *Stores) Main() headgate.Limiter {
	if s.guardedRedis != nil {
		return s.guardedRedis
	}
	return s.Memory
}

// Shared reports whether the counters are in Redis.
func (s *Stores) Shared() bool { return s.redis != nil }

// Close closes the stores.
func (s *Stores) Close() error {
	var errs []error
	if s.guardedRedis != nil {
		errs = append(errs, s.guardedRedis.Close())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Close())
	}
	return errors.Join(append(errs, s.Memory.Close())...)
}

// Status returns the state of the store. degraded reports whether a shard is unreachable or returns errors.
func (s *Stores) Status() (status telemetry.StoreStatus, degraded bool) {
	if s.guardedRedis == nil {
		return telemetry.StoreStatus{Kind: "memory"}, false
	}
	status.Kind = "redis"
	status.Shards = s.shards()
	degraded = slices.ContainsFunc(status.Shards, isDegraded)
	for _, w := range s.redis.Warnings() {
		status.Warnings = append(status.Warnings, w.String())
	}
	return status, degraded
}

// isDegraded reports whether a shard is unreachable or returns errors. The store does not need a replaced shard.
func isDegraded(s telemetry.ShardStatus) bool { return !s.Replaced && (!s.Up || s.Error != "") }

// Down returns the names of the shards that are unreachable or return errors, and the addresses of the servers that did
// not respond to the last check.
func (s *Stores) Down() (names []string) {
	if s.guardedRedis == nil {
		return nil
	}
	for _, shard := range s.shards() {
		if isDegraded(shard) {
			names = append(names, shard.Name)
		}
	}
	for _, server := range *s.servers.Load() {
		if server.Err != nil {
			names = append(names, "server "+server.Server)
		}
	}
	return names
}

// shards returns the state of each shard that was used or is unreachable. A shard that refuses only some keys, because
// other programs use them, is up and has an error.
func (s *Stores) shards() []telemetry.ShardStatus {
	var list []telemetry.ShardStatus
	for _, shard := range s.guardedRedis.Shards() {
		err := shard.Refuses
		if shard.Open {
			err = shard.Err
		}
		status := telemetry.ShardStatus{
			Name: shard.Name, Up: !shard.Open && !errors.Is(err, headgate.ErrFull),
			Since: shard.Since.UTC(),
		}
		if err != nil {
			status.Error = err.Error()
		}
		list = append(list, status)
	}
	outages := s.redis.Outages()
	for _, outage := range outages {
		status := telemetry.ShardStatus{Name: outage.Shard, Since: outage.Since.UTC(), Error: outage.Err.Error()}
		switch i := slices.IndexFunc(list, func(s telemetry.ShardStatus) bool { return s.Name == outage.Shard }); {
		case i < 0:
			list = append(list, status)
		case list[i].Up || list[i].Error == "":
			list[i] = status
		}
	}
	return markReplaced(list, *s.servers.Load(), outages)
}

// markReplaced marks the shards whose server is no longer a primary of the store, for example after a failover. The
// store does not call such a server, so its circuit may be in any state. If the server responds, it is a replica now,
// and markReplaced removes the shard. outages are of shards that the store uses now.
func markReplaced(
	list []telemetry.ShardStatus, servers []redisServer, outages []redisstore.Outage,
) []telemetry.ShardStatus {
	kept := list[:0]
	for _, shard := range list {
		used := slices.ContainsFunc(outages, func(o redisstore.Outage) bool { return o.Shard == shard.Name })
		if i := indexOf(servers, shard.Name); i >= 0 && !used {
			switch server := &servers[i]; {
			case server.replaced:
				shard.Up, shard.Replaced = false, true
				shard.Since, shard.Error = server.downSince.UTC(), server.Err.Error()
			case server.Err == nil && !server.Primary:
				continue
			}
		}
		kept = append(kept, shard)
	}
	return kept
}

// Measure adds the statistics of the stores to sources.
func (s *Stores) Measure(sources *telemetry.Sources) {
	sources.Memory = s.Memory.Stats
	if s.guardedRedis == nil {
		return
	}
	sources.Guard, sources.Shards = s.guardedRedis.Stats, s.shards
	sources.LostRefunds = s.redis.LostRefunds
	sources.Servers = func() []redisstore.ShardHealth {
		var list []redisstore.ShardHealth
		for _, server := range *s.servers.Load() {
			list = append(list, server.ShardHealth)
		}
		return list
	}
}

// The interval at which the Redis servers are checked, and the timeout of a check.
const (
	serversInterval = 10 * time.Second
	serversTimeout  = 2 * time.Second
)

// WatchServers checks the Redis servers every serversInterval, and when the state of a shard changes, until ctx ends.
func (s *Stores) WatchServers(ctx context.Context) {
	tick := time.NewTicker(serversInterval)
	defer tick.Stop()
	for {
		s.checkServers(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.checkNow:
		case <-tick.C:
		}
	}
}

func (s *Stores) checkServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serversTimeout)
	defer cancel()
	health, err := s.redis.SharedHealth(ctx, serversInterval)
	now := time.Now()
	servers := updateServers(*s.servers.Load(), health, err, now)
	s.servers.Store(&servers)
	s.checked.Store(now.UnixMilli())
}

// logGuardEvent logs a state change of the store.
func logGuardEvent(log *slog.Logger, e guard.Event) {
	args := []any{"shard", e.Shard}
	if e.Err != nil {
		args = append(args, "err", e.Err.Error())
	}
	level := slog.LevelWarn
	if e.Kind == guard.Recovered || e.Kind == guard.Deciding {
		level = slog.LevelInfo
		args = append(args, "duration", e.Down.String(), "degraded", e.Degraded)
	}
	if e.Reason != "" {
		args = append(args, "reason", e.Reason)
	}
	log.Log(context.Background(), level, e.Kind.String(), args...)
}
