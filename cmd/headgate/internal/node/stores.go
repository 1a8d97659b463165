package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/guard"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/telemetry"
)

// openTimeout is how long Redis may take at the start before the node starts without it.
const openTimeout = 5 * time.Second

// stores are where a node counts.
type stores struct {
	memory *memstore.Store
	redis  *redisstore.Store // nil if all is in memory
	guard  *guard.Guard      // before redis

	nodes   atomic.Pointer[fleet.Members]      // who knows how many nodes there are, nil if nobody does
	servers atomic.Pointer[[]telemetry.Server] // as they were when they were last asked
}

// openStores opens what the configuration names. Redis need not be there yet if it may be away.
func openStores(
	ctx context.Context, c *config.Config, secret []byte, mayBeAway bool, m *telemetry.Metrics, log *slog.Logger,
) (*stores, error) {
	memory, err := memstore.New(c.MemoryOptions())
	if err != nil {
		return nil, err
	}
	s := &stores{memory: memory}
	if c.Store == config.StoreMemory {
		return s, nil
	}
	o := c.RedisOptions(secret)
	o.Logger, o.StartUnreachable = log, mayBeAway
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if s.redis, err = redisstore.Open(opening, c.Store, o); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.Where("store"), err), s.close())
	}
	g := c.GuardOptions()
	g.Local = memory
	if g.Nodes == nil {
		g.Nodes = s.live
	}
	g.OnEvent = func(e guard.Event) { logEvent(log, e) }
	if s.guard, err = guard.New(m.Timed("redis", s.redis), g); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if secret == nil {
		log.Warn("no --key-secret-file: what is hashed here (bearer tokens, very long values) is counted by each node for itself, and leases can be read")
	}
	return s, nil
}

// live returns how many nodes share the limits, as far as that is known.
func (s *stores) live() int {
	if m := s.nodes.Load(); m != nil {
		return (*m).Live()
	}
	return 1
}

// main returns what counts for all hosts, or for this one.
func (s *stores) main() headgate.Limiter {
	if s.guard != nil {
		return s.guard
	}
	return s.memory
}

func (s *stores) shared() bool { return s.redis != nil }

// close closes them all.
func (s *stores) close() error {
	var errs []error
	if s.guard != nil {
		errs = append(errs, s.guard.Close())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Close())
	}
	return errors.Join(append(errs, s.memory.Close())...)
}

// status says how they are, and whether one is away.
func (s *stores) status() (status telemetry.StoreStatus, degraded bool) {
	if s.guard == nil {
		return telemetry.StoreStatus{Kind: "memory"}, false
	}
	status.Kind = "redis"
	status.Shards = s.shards()
	degraded = slices.ContainsFunc(status.Shards, func(s telemetry.ShardStatus) bool { return !s.Up || s.Error != "" })
	for _, w := range s.redis.Warnings() {
		status.Warnings = append(status.Warnings, w.String())
	}
	return status, degraded
}

// shards returns how each is that was asked, or that cannot be. One that has something else under some key decides all others, so
// it is up, with an error.
func (s *stores) shards() []telemetry.ShardStatus {
	var list []telemetry.ShardStatus
	for _, shard := range s.guard.Shards() {
		why := shard.Refuses
		if shard.Open {
			why = shard.Err
		}
		made := telemetry.ShardStatus{Name: shard.Name, Up: !shard.Open && !errors.Is(why, headgate.ErrFull), Since: shard.Since.UTC()}
		if why != nil {
			made.Error = why.Error()
		}
		list = append(list, made)
	}
	for _, outage := range s.redis.Outages() {
		made := telemetry.ShardStatus{Name: outage.Shard, Since: outage.Since.UTC(), Error: outage.Err.Error()}
		switch i := slices.IndexFunc(list, func(s telemetry.ShardStatus) bool { return s.Name == outage.Shard }); {
		case i < 0:
			list = append(list, made)
		case list[i].Up || list[i].Error == "":
			list[i] = made
		}
	}
	return list
}

// measure adds the figures of the stores to those that are scraped.
func (s *stores) measure(to *telemetry.Sources) {
	to.Memory = func() []telemetry.Memory {
		f := s.memory.Stats()
		return []telemetry.Memory{{
			Store: "memory", Keys: f.Keys, Bytes: f.Bytes, MaxBytes: f.MaxBytes, Evictions: f.Evictions, Refusals: f.Refusals,
		}}
	}
	if s.guard == nil {
		return
	}
	to.Guard = func() telemetry.Guard {
		f := s.guard.Stats()
		return telemetry.Guard{
			Calls: f.Calls, Failures: f.Failures, Timeouts: f.Timeouts, Probes: f.Probes, ProbesFailed: f.ProbesFailed,
			Open: f.Open, Closed: f.Closed, Local: f.Local, CacheHits: f.CacheHits, Shared: f.Shared,
			ChargesDropped: f.ChargesDropped, GivesDropped: f.GivesDropped, RefundsDropped: f.RefundsDropped,
			EventsLost: f.EventsDropped, LocalFailures: f.LocalFailures, Waits: f.Waits, Ungated: f.Ungated,
			Queued: f.Queued, Overloaded: f.Overloaded,
		}
	}
	to.Shards = func() []telemetry.Shard {
		var list []telemetry.Shard
		for _, shard := range s.shards() {
			list = append(list, telemetry.Shard{Name: shard.Name, Open: !shard.Up})
		}
		return list
	}
	to.LostRefunds = s.redis.LostRefunds
	to.Servers = func() []telemetry.Server {
		if list := s.servers.Load(); list != nil {
			return *list
		}
		return nil
	}
}

// How often servers are asked how they are, and how long that may take. A scrape has what they said last.
const (
	serversEvery   = 10 * time.Second
	serversTimeout = 2 * time.Second
)

// watchServers asks the servers of Redis how they are, again and again, until ctx ends.
func (s *stores) watchServers(ctx context.Context) {
	tick := time.NewTicker(serversEvery)
	defer tick.Stop()
	for {
		s.askServers(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *stores) askServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serversTimeout)
	defer cancel()
	health, err := s.redis.Health(ctx)
	if err != nil {
		health = nil // it is not known which servers there are, and the guard has told why
	}
	list := make([]telemetry.Server, len(health))
	for i := range health {
		h := &health[i]
		list[i] = telemetry.Server{
			Addr: h.Server, Primary: h.Primary, Up: h.Err == nil, Ping: h.Ping, MemoryUsed: h.MemoryUsed, MemoryMax: h.MemoryMax,
			Evicted: h.Evicted, Clients: h.Clients, OpsPerSecond: h.OpsPerSecond, LagBytes: h.LagBytes,
			Connects: h.Connects, Hangs: h.Hangs, Unanswered: h.Unanswered, Refused: h.Refused, Redirects: h.Redirects,
		}
	}
	s.servers.Store(&list)
}

// logEvent tells operators what happens to the store.
func logEvent(log *slog.Logger, e guard.Event) {
	args := []any{"shard", e.Shard}
	if e.Err != nil {
		args = append(args, "err", e.Err.Error())
	}
	level := slog.LevelWarn
	if e.Kind == guard.Recovered || e.Kind == guard.Deciding {
		level = slog.LevelInfo
		args = append(args, "down", e.Down.String(), "degraded", e.Degraded)
	}
	log.Log(context.Background(), level, e.Kind.String(), args...)
}
