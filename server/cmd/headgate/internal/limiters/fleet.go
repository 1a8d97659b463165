package limiters

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/gossip"
	"github.com/headgate/headgate/server/fleet/lease"
	"github.com/headgate/headgate/server/fleet/membership"
	"github.com/headgate/headgate/server/telemetry"
)

// A Fleet has the limiters that share limits with other nodes without a store call for every decision: lease, async,
// gossip, and the limiters across regions. Limiters that the configuration does not enable are nil.
type Fleet struct {
	config *config.Config
	stores *Stores
	id     string
	log    *slog.Logger

	redisMembership *membership.Membership
	gossip          *gossip.Limiter
	lease           *lease.Limiter
	async           *lazyLimiter[*async.Limiter]
	regions         *regionLimiters // nil without a global store
	nodeCounts      fleet.Members   // counts the nodes; nil without gossip and Redis
	sawPeer         atomic.Bool     // gossip has found another node since the start
}

// NewFleet returns a Fleet without limiters. id is the name of this node.
func NewFleet(c *config.Config, s *Stores, id string, log *slog.Logger) *Fleet {
	return &Fleet{config: c, stores: s, id: shortName(id), log: log}
}

// maxNodeName is the maximum length of a node name in updates between nodes, in bytes.
const maxNodeName = 64

// shortName returns id. If id is longer than maxNodeName, its end is replaced by a hash.
func shortName(id string) string {
	if len(id) <= maxNodeName {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	end := "-" + hex.EncodeToString(sum[:8])
	return id[:maxNodeName-len(end)] + end
}

// Open opens the limiters that the configuration enables. The caller must call Close even if Open fails.
func (fl *Fleet) Open(ctx context.Context, secret []byte) error {
	if fl.config.GossipEnabled() {
		if err := fl.openGossip(secret); err != nil {
			return err
		}
		fl.nodeCounts = fl.gossip
	}
	if fl.stores.redis == nil {
		return nil
	}
	if err := fl.openMembership(ctx); err != nil {
		return err
	}
	fl.stores.setNodes(fl.nodeCounts)
	var err error
	if fl.lease, err = lease.New(fl.stores.guardedRedis, lease.Options{
		TTL: fl.config.Fleet.LeaseTTL, MaxKeys: fl.config.Fleet.MaxKeys, Members: fl.nodeCounts,
	}); err != nil {
		return err
	}
	if err := fl.openAsync(ctx); err != nil {
		return err
	}
	if fl.config.GlobalStore == "" {
		return nil
	}
	return fl.openRegions(ctx, secret)
}

// fleetName returns the name that all nodes of this fleet have in common.
func (fl *Fleet) fleetName() string {
	return cmp.Or(fl.config.Fleet.Name, gossip.DefaultCluster)
}

func (fl *Fleet) openGossip(secret []byte) error {
	c := fl.config
	key, err := c.GossipKey()
	if err != nil {
		return err
	}
	if key == nil {
		fl.log.Warn("no --gossip-key-file: any host that reaches the gossip address can use up limits", "address",
			c.GossipAddr)
	}
	if fl.gossip, err = gossip.New(fl.ledgerOptions(secret), fl.gossipOptions(key)); err != nil {
		return fmt.Errorf("%s: %w", c.Origin("gossip-addr"), err)
	}
	return nil
}

func (fl *Fleet) gossipOptions(key []byte) gossip.Options {
	c := fl.config
	return gossip.Options{
		Name: fl.id, Cluster: fl.fleetName(), BindAddr: c.GossipAddr, Advertise: c.Fleet.Advertise, Join: c.Join, Key: key,
		Bandwidth: int64(c.Fleet.Bandwidth), Forget: c.Fleet.ForgetAfter, OnEvent: fl.onGossipEvent,
	}
}

// openMembership registers this node in Redis, so that nodes without gossip are counted, too.
func (fl *Fleet) openMembership(ctx context.Context) error {
	list, err := fleetredis.NewMemberList(fl.stores.redis, fl.fleetName())
	if err != nil {
		return fmt.Errorf("fleet.name: %w", err)
	}
	if fl.redisMembership, err = membership.New(ctx, list, membership.Options{Name: fl.id, Logger: fl.log}); err != nil {
		return err
	}
	if fl.gossip != nil {
		fl.nodeCounts = largerMembership{fl.redisMembership, fl.gossip}
	} else {
		fl.nodeCounts = fl.redisMembership
	}
	return nil
}

// openAsync opens the async limiter. The limiter needs a secret that is stored in Redis. Until Redis is reachable, the
// fallback decides, which counts on this node only.
func (fl *Fleet) openAsync(ctx context.Context) error {
	fallback, err := async.NewLocal(fl.ledgerOptions(nil))
	if err != nil {
		return err
	}
	// Until then, the on_failure policies of the rules apply, as always while Redis is unreachable. Denied callers may
	// retry after createRetry.
	fallback.Degrade(createRetry)
	fl.async = newLazyLimiter[*async.Limiter](fallback)
	create := func(ctx context.Context) (*async.Limiter, error) {
		return fl.openAsyncWith(ctx, fl.stores.redis, fl.fleetName(), fl.config.Fleet.Interval, rules.Async.String())
	}
	return fl.async.open(ctx, create, fl.log.With("mode", rules.Async.String()))
}

// openAsyncWith creates a limiter whose nodes exchange updates through a store. mode is the limiter's name in the log.
func (fl *Fleet) openAsyncWith(
	ctx context.Context, store *redisstore.Store, name string, interval time.Duration, mode string,
) (*async.Limiter, error) {
	secret, err := fleetredis.Secret(ctx, store)
	if err != nil {
		return nil, err
	}
	o := async.Options{Name: fl.id, Interval: interval, OnEvent: fl.onAsyncEvent(mode)}
	exchange, err := fleetredis.NewExchange(store, fleetredis.ExchangeOptions{
		Name: name, Author: o.Author(), Secret: secret,
	})
	if err != nil {
		return nil, err
	}
	a, err := async.New(fl.ledgerOptions(secret), exchange, o)
	if err == nil {
		fl.syncClock(ctx, a)
	}
	return a, err
}

// A clockSyncer is a limiter whose windows follow the clock of its store.
type clockSyncer interface{ SyncClock(context.Context) error }

// syncClock makes a limiter read the clock of the store, to which it aligns windows. If that fails, the limiter uses
// the clock of this host and tries again later.
func (fl *Fleet) syncClock(ctx context.Context, limiter clockSyncer) {
	if err := limiter.SyncClock(ctx); err != nil {
		fl.log.Warn("store clock unknown, windows follow this host's clock for now", "err", err.Error())
	}
}

// ledgerOptions returns the options of a ledger whose keys are hashed with secret.
func (fl *Fleet) ledgerOptions(secret []byte) fleet.LedgerOptions {
	f := &fl.config.Fleet
	return fleet.LedgerOptions{
		Secret: secret, MaxKeys: f.MaxKeys, LocalCap: f.LocalCap,
		Members:   fl.nodeCounts, // nil for gossip, which counts the nodes itself
		OnRefused: fl.onRefused,
	}
}

// openRegions opens the limiters that share limits with other regions.
func (fl *Fleet) openRegions(ctx context.Context, secret []byte) error {
	c := fl.config
	o := c.RedisOptions(secret)
	o.Logger, o.StartUnreachable = fl.log, true
	openCtx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	store, err := redisstore.Open(openCtx, c.GlobalStore, o)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Origin("global-store"), err)
	}
	fl.regions = &regionLimiters{store: store}
	return fl.regions.open(ctx, fl)
}

// Global returns the limiters of rules that have the scope "global", with their consistency as key. Without a global
// store, it returns nil.
func (fl *Fleet) Global() map[rules.Consistency]headgate.Limiter {
	if fl.regions == nil {
		return nil
	}
	return fl.regions.byConsistency()
}

// ByConsistency returns the enabled limiters for lease, async and gossip, with their consistency as key.
func (fl *Fleet) ByConsistency() map[rules.Consistency]headgate.Limiter {
	limiters := make(map[rules.Consistency]headgate.Limiter)
	if fl.lease != nil {
		limiters[rules.Lease] = fl.lease
	}
	if fl.async != nil {
		// A lazyLimiter does not promise to drop the strings of a check after a call. This one does.
		limiters[rules.Async] = borrowingLimiter[*async.Limiter]{fl.async}
	}
	if fl.gossip != nil {
		limiters[rules.Gossip] = fl.gossip
	}
	return limiters
}

// GossipAddr returns the address at which other nodes reach this one, or "" without gossip.
func (fl *Fleet) GossipAddr() string {
	if fl.gossip == nil {
		return ""
	}
	return fl.gossip.Addr()
}

// closeTimeout is how long the limiters may take to return leases and send their last updates.
const closeTimeout = 2 * time.Second

// Close returns leases and sends the last updates. It only logs errors.
func (fl *Fleet) Close() {
	var errs []error
	if fl.regions != nil { // close them first, because they use the other limiters
		errs = append(errs, fl.regions.close())
	}
	var parts []func(context.Context) error
	if fl.lease != nil {
		parts = append(parts, fl.lease.Close)
	}
	if fl.async != nil {
		parts = append(parts, fl.async.close)
	}
	if fl.gossip != nil {
		parts = append(parts, func(context.Context) error { return fl.gossip.Close() })
	}
	if fl.redisMembership != nil {
		parts = append(parts, fl.redisMembership.Close)
	}
	if err := errors.Join(append(errs, closeAll(parts...))...); err != nil {
		fl.log.Warn("could not notify other nodes of the shutdown", "err", err.Error())
	}
}

// closeAll closes parts concurrently, within closeTimeout.
func closeAll(parts ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, closePart := range parts {
		group.Go(func() { errs[i] = closePart(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (fl *Fleet) onRefused(from fleet.Peer, reason string) {
	fl.log.Warn("implausible update ignored", "node", from.Name, "reason", reason)
}

// onAsyncEvent returns a function that logs the events of an async limiter.
func (fl *Fleet) onAsyncEvent(mode string) func(fleet.Event) {
	log := fl.log.With("mode", mode)
	return func(e fleet.Event) { logAsyncEvent(log, e) }
}

func logAsyncEvent(log *slog.Logger, e fleet.Event) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "err", e.Err.Error())
	}
	level := slog.LevelWarn
	switch e.Kind {
	case fleet.ExchangeReachable, fleet.ExchangeFullyReachable:
		level, args = slog.LevelInfo, append(args, "downtime", e.Down.String())
	case fleet.ClockInSync, fleet.StoreClockInSync:
		level = slog.LevelInfo
	case fleet.ClockOutOfSync, fleet.StoreClockOutOfSync:
		args = append(args, "skew", e.Offset.Round(time.Millisecond).String())
	}
	log.Log(context.Background(), level, e.Kind.String(), args...)
}

func (fl *Fleet) onGossipEvent(e gossip.Event) {
	if e.Kind == gossip.PeerJoined {
		fl.sawPeer.Store(true)
	}
	level := slog.LevelWarn
	switch e.Kind {
	case gossip.PeerJoined, gossip.PeerLeft, gossip.PeerForgotten, gossip.Resumed:
		level = slog.LevelInfo
	}
	args := []any{"node", e.Host}
	if e.Detail != "" {
		args = append(args, "detail", e.Detail)
	}
	if e.Suppressed > 0 {
		args = append(args, "suppressed", e.Suppressed)
	}
	fl.log.Log(context.Background(), level, e.Kind.String(), args...)
}

// Stats returns the statistics of all limiters.
func (fl *Fleet) Stats() telemetry.Fleet {
	var f telemetry.Fleet
	if fl.nodeCounts != nil {
		f.Live, f.Known = int64(fl.nodeCounts.Live()), int64(fl.nodeCounts.Known())
	}
	if fl.lease != nil {
		s := fl.lease.Stats()
		f.Leases = &control.LeaseStats{
			Keys: s.Keys, Calls: s.Calls, Failed: s.Failures, Granted: s.Granted, Returned: s.Returned, Expired: s.Expired,
			Denied: s.Denied, Waits: s.Waits, DecidedInStore: s.Exact, Degraded: s.Degraded,
		}
	}
	if fl.async != nil {
		stats := control.SyncStats{Mode: rules.Async.String()}
		if a, ok := fl.async.get(); ok {
			stats = exchangeStats(stats.Mode, a.Stats())
		}
		f.Sync = append(f.Sync, stats)
	}
	if fl.regions != nil {
		f.Sync = append(f.Sync, fl.regions.stats())
	}
	if fl.gossip != nil {
		s := fl.gossip.Stats()
		stats := ledgerStats(rules.Gossip.String(), &s.Ledger)
		stats.ClockAheadMS, stats.SkewedClocks = milliseconds(s.ClockAhead), int64(s.ClocksOff)
		stats.Waiting += s.Waiting // updates held back by the bandwidth limit
		stats.Sent, stats.Received, stats.Failed = s.Sent, s.Received, s.SendErrors
		// Gossip is up if this node sees a peer. A node that is alone is up if it has no peers to join, or if it saw peers
		// before and all of them have left.
		stats.Up = s.Live > 1 || s.Known == 1 && (len(fl.config.Join) == 0 || fl.sawPeer.Load())
		f.Sync = append(f.Sync, stats)
		f.Gossip = &s
	}
	return f
}

// exchangeStats returns the statistics of a limiter that exchanges updates through a store.
func exchangeStats(mode string, s fleet.ExchangeStats) control.SyncStats {
	f := ledgerStats(mode, &s.LedgerStats)
	f.Sent, f.Received, f.Failed, f.Up = s.Sent, s.Received, s.Failures, !s.Unreachable && s.UnreachableGroups == 0
	f.Refused += s.Malformed
	f.ClockAheadMS = milliseconds(s.ClockAhead)
	if s.ClockAhead.Abs() >= fleet.MaxClockSkew {
		f.SkewedClocks = 1
	}
	return f
}

// largerMembership returns the larger counts of two memberships. A node that cannot reach Redis may still be known by
// gossip, and vice versa.
type largerMembership [2]fleet.Members

func (m largerMembership) Live() int  { return max(m[0].Live(), m[1].Live()) }
func (m largerMembership) Known() int { return max(m[0].Known(), m[1].Known()) }
